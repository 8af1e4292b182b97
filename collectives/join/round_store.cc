#include "collectives/join/round_store.h"

#include "collectives/waiting/group_error.h"
#include "core/base/error.h"

namespace dl::collectives {

void RoundStore::refuse(std::string_view call) const {
  throw_error(ErrorKind::kInternal, "{}: making a group asked its store for {}", what_, call);
}

void RoundStore::exchange(std::string_view key, std::string_view value, Deadline deadline) {
  // A key contains no newline, because a group's name must not.
  const std::string line = fmt::format("{}\n{}", key, value);
  for (const std::string& text : gather(line, deadline)) {
    const std::size_t end = text.find('\n');
    if (end != std::string::npos && end > 0) {
      values_.emplace(text.substr(0, end), text.substr(end + 1));
    }
  }
  ++exchanged_;
}

void RoundStore::begin_round(int round, Deadline deadline) {
  round_ = round;
  while (exchanged_ < round) pass(deadline);
}

void RoundStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  if (exchanged_ > round_) refuse("a second set()");
  exchange(key, value, deadline);
}

std::string RoundStore::get(std::string_view key, Deadline) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    throw_mismatch(/*rank=*/-1,
                   "{}: no rank has set '{}'; do all ranks give the new group the same name?",
                   what_, key);
  }
  return found->second;
}

std::optional<std::string> RoundStore::try_get(std::string_view, Deadline) {
  refuse("try_get()");
}
void RoundStore::wait(std::span<const std::string>, Deadline) {
  refuse("wait()");
}
std::int64_t RoundStore::add(std::string_view, std::int64_t, Deadline) {
  refuse("add()");
}
rendezvous::Store::Swap RoundStore::compare_and_set(std::string_view,
                                                    const std::optional<std::string>&,
                                                    std::string_view, Deadline) {
  refuse("compare_and_set()");
}

}  // namespace dl::collectives
