#include "launcher/preempt/checkpointing.h"

#include <fmt/core.h>

#include <utility>

namespace dl::launcher {

Checkpointing::Checkpointing(boost::asio::io_context& io, std::vector<int> ranks,
                             std::chrono::milliseconds patience, CheckpointEvents events)
    : door_(io, std::move(ranks)), events_(std::move(events)), patience_(patience), timer_(io) {}

void Checkpointing::ask(const std::string& why) {
  if (is_requested() || ends_) return;
  asked_ = true;
  why_ = why;
  events_.on_sentence(fmt::format("{}: the ranks are asked to save and end", why));
  if (events_.ask_all) {
    events_.ask_all(why);
    watch(patience_);  // the other nodes may not answer
  } else {
    request(why);
  }
}

void Checkpointing::request(const std::string& why) {
  if (ends_ || !preemption_.request(why)) return;
  why_ = why;
  door_.request();
  const std::uint64_t most = Preemption::most_calls(calls());
  if (events_.say_calls) {
    events_.say_calls(most);
  } else {
    agree(most + 1);
  }
  watch(patience_);
}

void Checkpointing::agree(std::uint64_t call) {
  preemption_.agree(call);
  door_.answer(call);
}

void Checkpointing::announce_end() {
  ends_ = true;
  timer_.cancel();
  door_.announce_end();
}

// dlrun sets no limit for the saving itself: the sender of the request does.
void Checkpointing::watch(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired() || ends_) return;
    const std::vector<RankCalls> ranks = calls();
    if (preemption_.not_there(ranks).empty()) return;
    const std::chrono::duration<double> waited = patience_;
    events_.on_late(
        fmt::format("{}, {:g} s after {}", preemption_.complaint(ranks), waited.count(), why_));
  });
}

std::vector<RankCalls> Checkpointing::calls() const {
  std::vector<RankCalls> ranks = door_.calls();
  std::erase_if(ranks, [this](const RankCalls& one) { return forgotten_.contains(one.rank); });
  return ranks;
}

std::string Checkpointing::who_has_not_saved() const {
  const std::vector<RankCalls> ranks = calls();
  const bool some_have = preemption_.outcome(ranks) == Preemption::Outcome::kPartly;
  return some_have ? preemption_.complaint(ranks) : "";
}

}  // namespace dl::launcher
