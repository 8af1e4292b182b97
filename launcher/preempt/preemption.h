// Preemption: a request to save and end, on the agent's side. It decides at which call of
// dl::should_checkpoint() the ranks save, which ranks have not come there, and what the end of the
// ranks means. A pure state machine, without sockets, clocks or processes.
//
// Let n be the most calls that any rank has made when its node's agent has made the request
// visible. The ranks save at call S = n + 1. So no rank is beyond S. A rank that waits for S waits
// only for agents, because a rank that has not seen the request yet may still need others for its
// step.
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
  // Returns false if there was a request before.
  bool request(std::string why);
  bool is_requested() const { return requested_; }
  const std::string& why() const { return why_; }

  // The number that this node tells the others: the most calls of any of its ranks.
  static std::uint64_t most_calls(std::span<const RankCalls> ranks);
  // To be called when all nodes have told their number: the ranks save at this call.
  void agree(std::uint64_t call) { call_ = call; }
  std::optional<std::uint64_t> call() const { return call_; }

  // Ranks that have not returned true yet; all ranks before agree().
  std::vector<RankCalls> not_there(std::span<const RankCalls> ranks) const;
  // "not saved: rank 3 has never called dl::should_checkpoint()". Only if not_there() is not empty.
  std::string complaint(std::span<const RankCalls> ranks) const;

  // The outcome if all ranks of this node have ended with 0.
  enum class Outcome : std::uint8_t {
    kNone,   // there was no request, or the ranks were done before call S
    kSaved,  // every rank has returned true, or none is left that had to
    kPartly  // some ranks have, and others ended before
  };
  Outcome outcome(std::span<const RankCalls> ranks) const;

 private:
  bool requested_ = false;
  std::string why_;
  std::optional<std::uint64_t> call_;
};

}  // namespace dl::launcher
