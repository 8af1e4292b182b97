// Notices: the ranks of an NCCL group report their last calls through the job's store, because NCCL
// does not report missing ranks.
//
// A rank that waits long asks, and every rank's watcher answers with its last call; a rank that
// does not answer is stopped or gone. Only the watchers' threads use the store, with short
// deadlines. close() must be called before the store is destroyed. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/descriptor.h"
#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"
#include "rendezvous/store.h"

namespace dl::collectives::nccl {

class Notices : public RefCounted {
 public:
  // Without a store no rank asks or answers.
  explicit Notices(rendezvous::Store* store) : store_(store) {}

  // Stops the use of the store. Waits for a call under way, at most 2 s.
  void close() noexcept;

  struct Place {
    std::uint64_t last_called = 0;
    std::optional<Descriptor> call{};  // nullopt for a graph's launch
  };
  // Answers questions since the last call; `asked` is the last question that this rank has
  // answered.
  void answer(const std::string& group, int rank, const Place& place, std::int64_t& asked) noexcept;
  // The places of the other ranks, by rank; this rank goes on answering meanwhile. An element is
  // nullopt for this rank, and for a rank that has not answered by the deadline or before `stops`
  // returned true. Returns nullopt if there is no store.
  std::optional<std::vector<std::optional<Place>>> ask(const std::string& group, int rank, int size,
                                                       const Place& own, std::int64_t& asked,
                                                       std::chrono::milliseconds patience,
                                                       const std::function<bool()>& stops) noexcept;

 private:
  void answer_now(const std::string& group, int rank, const Place& place, std::int64_t& asked)
      DL_REQUIRES(mutex_);

  Mutex mutex_;
  rendezvous::Store* store_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::collectives::nccl
