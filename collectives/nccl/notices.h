// Notices: how ranks of a group whose bytes NCCL moves tell each other where they are, over the
// job's store, as NCCL does not say who is missing.
//
// Whoever waits long asks, and every rank's watcher answers with its last call; a rank that does
// not answer is stopped or gone. The store is used from the watchers' threads only, with short
// deadlines; close() ends that, before the store goes. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "rendezvous/store.h"

namespace dl::collectives::nccl {

class Notices : public RefCounted {
 public:
  // Without a store nobody is asked, and nobody answers.
  explicit Notices(rendezvous::Store* store) : store_(store) {}

  // The store is not used after this. Waits for a call under way, at most 2 s.
  void close() noexcept;

  struct Place {
    std::uint64_t last_called = 0;
    std::string call{};  // as text(Descriptor) has it
  };
  // Answers what was asked since the last time; `asked` is what this rank has answered so far.
  void answer(const std::string& group, int rank, const Place& place, std::int64_t& asked) noexcept;
  // Where the others are, by rank, while this rank goes on answering; nullopt for this rank and for
  // those that have not answered by the deadline, or before `stops` says that nobody waits any
  // more. Nullopt altogether where there is no store to ask through.
  std::optional<std::vector<std::optional<Place>>> ask(const std::string& group, int rank, int size,
                                                       const Place& own, std::int64_t& asked,
                                                       std::chrono::milliseconds patience,
                                                       const std::function<bool()>& stops) noexcept;

 private:
  void answer_now(const std::string& group, int rank, const Place& place, std::int64_t& asked);

  std::mutex mutex_;
  rendezvous::Store* store_;
};

}  // namespace dl::collectives::nccl
