#include "rendezvous/first_cause/peer_failures.h"

#include <algorithm>
#include <string>
#include <utility>

namespace dl::rendezvous {
namespace {

// A program may try for ever.
constexpr std::size_t kMost = 8;
// A shorter text may stand in a message by chance.
constexpr std::size_t kLeastQuoted = 16;

bool quotes(std::string_view message, const std::string& text) {
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  return line.size() >= kLeastQuoted && message.find(line) != std::string_view::npos;
}

}  // namespace

// The first report that the rank has not got over stays: explanation() returns it if the last
// message quotes none.
void PeerFailures::make_room() {
  if (all_.size() < kMost) return;
  const auto over = std::ranges::find_if(all_, &Report::is_over);
  all_.erase(over != all_.end() ? over : all_.begin() + 1);
}

void PeerFailures::add(PeerFailure failure) {
  const auto first =
      std::ranges::find_if(all_, [](const Report& report) { return !report.is_over; });
  // A rank may hear of a mismatch before it calls the operation.
  if (first != all_.end() && first->failure.call.empty()) first->failure.call = failure.call;
  const bool is_known = std::any_of(first, all_.end(), [&](const Report& report) {
    return !report.is_over && report.failure.cause.text == failure.cause.text;
  });
  if (is_known) return;
  make_room();
  all_.push_back({.failure = std::move(failure)});
}

void PeerFailures::recovered() {
  for (Report& report : all_) report.is_over = true;
}

std::optional<PeerFailure> PeerFailures::explanation(int rank,
                                                     std::string_view last_message) const {
  auto found = std::ranges::find_if(all_, [](const Report& report) { return !report.is_over; });
  const bool is_own = found != all_.end() && found->failure.cause.blame == Blame::kBroke &&
                      found->failure.cause.rank == rank;
  if (!is_own) {
    const auto quoted = std::ranges::find_if(all_, [&](const Report& report) {
      return quotes(last_message, report.failure.cause.text);
    });
    if (quoted != all_.end()) found = quoted;
  }
  if (found == all_.end()) return std::nullopt;
  PeerFailure failure = found->failure;
  const auto mismatch = std::ranges::find_if(all_, [](const Report& report) {
    return !report.is_over && report.failure.cause.blame == Blame::kMismatch;
  });
  if (mismatch != all_.end() && failure.cause.blame != Blame::kMismatch) {
    failure.call = mismatch->failure.call;
  }
  return failure;
}

}  // namespace dl::rendezvous
