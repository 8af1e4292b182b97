#include "launcher/pmi/pmix/nodes/name_board.h"

#include <algorithm>
#include <utility>

namespace dl::pmix {

bool NameBoard::publish(const Entries& entries) {
  const bool is_taken = std::ranges::any_of(
      entries, [this](const auto& entry) { return entries_.contains(entry.first); });
  if (is_taken) return false;
  entries_.insert(entries.begin(), entries.end());
  std::erase_if(waiting_, [this](const Question& question) { return answer(question); });
  return true;
}

void NameBoard::look_up(Question question) {
  if (!answer(question)) waiting_.push_back(std::move(question));
}

bool NameBoard::answer(const Question& question) {
  Entries found;
  for (const std::string& name : question.names) {
    if (const auto entry = entries_.find(name); entry != entries_.end()) found.insert(*entry);
  }
  if (question.waits && found.size() < question.names.size()) return false;
  for (const auto& [name, entry] : found) {
    if (entry.is_for_one_reader) entries_.erase(name);
  }
  question.answer(found);
  return true;
}

void NameBoard::unpublish(std::uint32_t owner, const std::vector<std::string>& names) {
  std::erase_if(entries_, [&](const auto& entry) {
    return entry.second.owner == owner &&
           (names.empty() || std::ranges::find(names, entry.first) != names.end());
  });
}

}  // namespace dl::pmix
