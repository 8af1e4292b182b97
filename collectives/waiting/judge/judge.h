// judge(): decides, for an operation that waits, when to probe its peers, when to log the missing
// ranks, and when its deadline ends it. All backends call it, so the same fault gives the same
// sentence.
//
// It sends and logs nothing, and changes only its Waiting. Besides its arguments it reads how long
// this process was stopped. Any thread, if no other one uses the Waiting.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/judge/probe_schedule.h"

namespace dl::collectives {

// What is known of a peer to which a probe was sent.
enum class Contact : std::uint8_t {
  kAnswers,
  kSlow,    // the probe is still on its way, to a host that can be reached
  kSilent,  // it has the probe but does not answer, or its host does not answer
};

// What this rank knows of another rank, for one operation.
struct PeerState {
  enum class Presence : std::uint8_t { kHere, kLeft, kGone };

  const Identity* who = nullptr;
  Presence presence = Presence::kHere;
  Contact contact = Contact::kAnswers;
  std::uint64_t last_called = 0;  // its last collective that this rank has heard of
  bool has_told = true;           // `last_called` is from after the probe
  bool is_needed = false;         // the operation still has data to get from it or to send to it
};

// Phrases of a backend.
struct WaitWords {
  // Why a rank may not answer.
  std::string_view silent = "stopped, or its host cannot be reached";
  // What an operation waits for if it waits for no other rank.
  std::string_view own = "its own part";
};

// The rank for which an operation waits, and the text that names all such ranks.
struct Missing {
  int rank = -1;  // in the group; silent ranks come first; -1: no other rank, or unknown
  Blame blame = Blame::kNone;
  int in_job = -1;         // `rank` in the job
  std::string text;        // "waiting for rank 2 (node1, pid 4711), which has not called it ..."
  bool is_behind = false;  // the operation waits for an earlier one
  std::string called{};    // the name of the waiting operation; empty: text(descriptor)
};

// `others`: all ranks but this one, in order.
Missing missing_in(const Descriptor& collective, std::span<const PeerState> others,
                   const WaitWords& words = {});
// `peer`: of the send or recv, in the group, or kAnySource.
Missing missing_for(const Descriptor& message, int peer, std::span<const PeerState> others);
// For a collective that begins only after `earlier`. `earlier` itself waits for `missing`.
Missing missing_behind(const Descriptor& earlier, Missing missing);

// The wait of one operation. Its times exclude those in which this process was stopped. The driver
// of the operation owns it.
class Waiting {
 public:
  using Time = Deadline::Clock::time_point;

  explicit Waiting(std::chrono::nanoseconds timeout) noexcept : timeout_(timeout) {}

  // Only the first call counts.
  void begin(Time now) noexcept;
  std::chrono::nanoseconds waited(Time now) const noexcept;

  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }

  ProbeSchedule probes{};
  bool has_warned = false;

 private:
  std::chrono::nanoseconds timeout_;
  std::optional<Time> begin_{};
  std::chrono::nanoseconds stopped_before_{};
};

struct Judgement {
  bool is_to_probe = false;        // the peers, now
  std::string warning{};           // to be logged; empty: none
  std::optional<Cause> failure{};  // the deadline has passed
  std::optional<int> waits_for{};  // Missing::rank, if it warns or fails
  Waiting::Time next{};            // when to ask again; max(): never
};

// Begins the wait if it has not begun. Calls `missing` only to warn or to fail.
Judgement judge(Waiting& waiting, const Descriptor& what, Waiting::Time now,
                std::chrono::nanoseconds warn_after, const std::function<Missing()>& missing);

}  // namespace dl::collectives
