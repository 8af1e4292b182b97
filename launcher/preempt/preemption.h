// A request to save and end, from the agent's side: at which call of dl::should_checkpoint() the
// ranks save, who has not come there, and what the end of the job means. A pure state machine,
// without sockets, clocks or processes.
//
// Call number S is one more than the most calls that any rank has made when its node's agent has
// made the request visible. So no rank is beyond S, and a rank that waits for S waits for agents
// alone: a rank that has not seen the request yet may still need others for its step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dl::launcher {

inline constexpr int kExitSaved = 75;  // EX_TEMPFAIL of sysexits.h: start it again

struct RankCalls {
  int rank = 0;
  std::uint64_t calls = 0;  // of should_checkpoint(); 0: never
};

class Preemption {
 public:
  // False: there was a request before this one.
  bool request(std::string why);
  bool is_requested() const { return requested_; }
  const std::string& why() const { return why_; }

  // What this node tells the others: the most calls of any of its ranks.
  static std::uint64_t most_calls(std::span<const RankCalls> ranks);
  // All nodes have said theirs.
  void agree(std::uint64_t call) { call_ = call; }
  std::optional<std::uint64_t> call() const { return call_; }

  // Ranks that have not returned true yet; all ranks until the nodes have agreed.
  std::vector<RankCalls> not_there(std::span<const RankCalls> ranks) const;
  // "not saved: rank 3 has never called dl::should_checkpoint()". Only if not_there() is not empty.
  std::string complaint(std::span<const RankCalls> ranks) const;

  // What it means that all ranks of this node have ended with 0.
  enum class Outcome : std::uint8_t {
    kNone,   // there was no request, or the ranks were done before call S
    kSaved,  // every rank has returned true
    kPartly  // some have, and others ended before
  };
  Outcome outcome(std::span<const RankCalls> ranks) const;

 private:
  bool requested_ = false;
  std::string why_;
  std::optional<std::uint64_t> call_;
};

}  // namespace dl::launcher
