// Copies of a flight recorder. A copy is taken while another process writes, and written to a file.
// A file is parsed safely, whatever it contains.
//
// Pure functions and values; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/record/format.h"

namespace dl::collectives::record {

// Returns a copy, with the time of copying by both clocks. Each slot is consistent in itself; a
// slot that was being written is kWriting. Groups are copied without synchronisation: in the
// process that writes them, hold its mutex.
std::unique_ptr<Memory> take_snapshot(const Memory& memory);

inline constexpr std::string_view kFileName = "flight.rec";
// Writes `directory`/<rank>/flight.rec and makes the folders. Returns an error text, or "".
std::string write_snapshot(const Memory& copy, const std::string& directory, int rank);

// The content of a file. Texts contain no control characters, whatever the file contains.
struct Operation {
  std::uint64_t ticket = 0;  // order in which the rank began its operations
  std::uint64_t group = 0;   // Group's number, modulo 65536
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::int32_t root = -1;  // point-to-point: the tag
  std::string op, dtype, reduce;
  std::string algorithm;  // empty: not recorded
  std::uint8_t order = 0;
  std::uint16_t hash = 0;
  int waits_for = -1;       // rank in the group
  bool is_message = false;  // point-to-point
  State state = State::kEnqueued;
  // Seconds before the copy was taken; nullopt: did not happen, or has no valid time.
  std::optional<double> enqueued, started, ended;

  bool is_over() const noexcept { return state == State::kFinished || state == State::kFailed; }
};

struct GroupFacts {
  std::uint64_t number = 0;
  GroupState state = GroupState::kOpen;
  std::uint64_t generation = 0;
  int rank = 0;
  int size = 1;
  std::string backend, name;
  std::uint64_t last_called = 0;
  std::string kind, cause;       // of the error that broke it; empty: it is not broken
  std::optional<double> broken;  // seconds before the copy
  std::uint64_t broken_at = 0;   // the same in ticks of its host
};

struct RankFacts {
  int rank = 0;
  int world_size = 1;
  std::uint64_t generation = 0;
  std::string host, job;
  std::uint64_t copied_at_ns = 0;  // since 1970
  End end = End::kUnknown;
  int status = 0;
  int pid = 0;
  std::string fate;  // "ended by dlrun with SIGTERM"; empty: not known
  bool was_stopped = false, is_cause = false;
  char process_state = 0;
  std::optional<double> ended;        // seconds before the copy
  bool opened = false;                // a program with dlrun's collectives wrote it
  std::vector<GroupFacts> groups;     // by number
  std::vector<Operation> operations;  // by ticket
  std::uint64_t torn = 0;             // slots that were being written
  std::uint64_t dropped = 0;          // operations that found no slot
  bool truncated = false;
};

// Returns nullopt, with the reason in `why`, if the bytes are no recorder of this format.
std::optional<RankFacts> parse(std::span<const std::byte> bytes, std::string& why);

}  // namespace dl::collectives::record
