// Recorder: the flight recorder of one process, and GroupRecorder, through which a group writes it.
//
//   Slot* slot = group_recorder.enqueue({.sequence = 7, .count = 1024, .op = 2});
//   group_recorder.start(slot);
//   group_recorder.finish(slot);  // or fail(slot)
//
// A backend calls enqueue() when the operation gets its sequence number, and start() when its first
// byte may move. When it is over, it calls finish() or fail() once. begin() combines enqueue() and
// start(), for operations that run in their caller. Each call takes some ten nanoseconds, does not
// allocate, never blocks and never fails. Every call accepts a null slot (no recorder, or no free
// slot).
//
// A Recorder owns its mapping. Groups share it, because a group may outlive the session that made
// it. A Slot* belongs to the operation from enqueue() until finish() or fail(), and must not be
// used after that.
//
// Thread-safety: any thread. If several threads make calls for one slot, handing the operation over
// (by an inbox or a flag) must synchronise them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collectives/record/clock.h"
#include "collectives/record/format.h"
#include "core/base/mutex.h"

namespace dl::collectives::record {

// The names of the numbers in What. At most kNames of each list are kept.
struct Names {
  std::span<const std::string_view> ops;
  std::span<const std::string_view> dtypes;
  std::span<const std::string_view> reduces;
};

// One operation. `hash` is equal on ranks that call the same operation; 0: not known.
struct What {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::int32_t root = -1;  // point-to-point: the tag
  std::uint8_t op = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduce = 0;
  std::uint8_t order = 0;
  std::uint16_t hash = 0;
  bool is_message = false;  // point-to-point, and no collective
  std::int32_t peer = -1;   // point-to-point: the other rank; -1: any
};

// Describes the rank, if dlrun has not done so.
struct Who {
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::uint64_t generation = 0;
  std::string_view host{};
  std::string_view job{};
};

// Fills the header of fresh memory (zeroed, kBytes), as the process that makes it does.
void describe(Header& header, const Who& who) noexcept;

class GroupRecorder;

// Called for each operation of this process that ends, before its slot is reused.
using Observer = void (*)(const Header& header, const Group& group, const Slot& slot,
                          std::uint64_t ended_at) noexcept;
// Sets the only observer of this process; null: none.
void observe_ends(Observer observer) noexcept;

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  // Maps the memory of a descriptor that dlrun made, and does not keep the descriptor. Returns
  // null, with the reason in `why`, if it is no recorder or another process writes it.
  static std::shared_ptr<Recorder> open(int fd, const Names& names, std::string& why);
  // The file for a recorder in private memory, written when its first group breaks.
  struct File {
    std::string directory{};                           // as RANK/flight.rec; empty: nowhere
    void (*failed)(const std::string& why) = nullptr;  // called if it cannot be written
  };
  // A recorder in this process's private memory; null if memory is short.
  static std::shared_ptr<Recorder> make(const Who& who, const Names& names, File file);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  struct GroupOptions {
    std::string_view name{};
    std::string_view backend{};
    std::uint64_t generation = 0;
    int rank = 0;
    int size = 1;
  };
  // If the table is full of open groups, the new one is not recorded.
  GroupRecorder add_group(const GroupOptions& options);
  // The number of a name ("ring", "staged") for start(). 0: the table is full.
  std::uint8_t algorithm(std::string_view name);

  const Memory& memory() const noexcept { return *memory_; }

 private:
  friend class GroupRecorder;
  Recorder(Memory* memory, File file) noexcept;
  static bool take_over(Memory& memory, std::string& why);
  static void prepare(Memory& memory, const Names& names) noexcept;
  void write_file() noexcept DL_REQUIRES(mutex_);

  Memory* const memory_;
  const ClockKind clock_;
  const File file_;
  Mutex mutex_;  // also guards the groups and names in the memory
  std::uint64_t next_group_ DL_GUARDED_BY(mutex_) = 1;
  bool is_written_ DL_GUARDED_BY(mutex_) = false;
};

class GroupRecorder {
 public:
  GroupRecorder() noexcept = default;  // records nothing
  GroupRecorder(GroupRecorder&& other) noexcept = default;
  GroupRecorder& operator=(GroupRecorder&& other) noexcept;
  ~GroupRecorder();  // marks the group as left

  Slot* enqueue(const What& what) noexcept { return take(what, State::kEnqueued, 0); }
  Slot* begin(const What& what, std::uint8_t algorithm = 0) noexcept {
    return take(what, State::kStarted, algorithm);
  }
  void start(Slot* slot, std::uint8_t algorithm = 0) noexcept;
  // Records the rank that the operation waits for. Called only for operations that take long.
  void wait_for(Slot* slot, int rank) noexcept;
  void finish(Slot* slot) noexcept { end(slot, State::kFinished, now()); }
  void fail(Slot* slot) noexcept { end(slot, State::kFailed, now()); }
  // finish() and fail() with a reading of the best clock that the caller has taken.
  void finish(Slot* slot, std::uint64_t at) noexcept { end(slot, State::kFinished, at); }
  void fail(Slot* slot, std::uint64_t at) noexcept { end(slot, State::kFailed, at); }
  // Records the first cause, and writes the recorder's file if it has a directory. Call it before
  // the operations end, because the process may exit as soon as they do.
  void broken(std::string_view kind, std::string_view cause) noexcept;

  // Null if nothing is recorded.
  Recorder* recorder() const noexcept { return recorder_.get(); }

 private:
  friend class Recorder;
  Slot* take(const What& what, State state, std::uint8_t algorithm) noexcept;
  void end(Slot* slot, State state, std::uint64_t at) noexcept;
  std::uint64_t now() const noexcept { return recorder_ ? ticks(recorder_->clock_) : 0; }

  std::shared_ptr<Recorder> recorder_;
  Group* group_ = nullptr;
  std::uint64_t number_ = 0;
};

}  // namespace dl::collectives::record
