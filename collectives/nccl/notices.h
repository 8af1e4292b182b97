// Notices: through the job's store, the ranks of an NCCL group tell each other their last calls.
// NCCL itself does not name missing ranks.
//
// A rank that waits long asks, and every rank's watcher answers with its last call. A rank that
// does not answer is stopped or gone. Only the watchers' threads use the store, with short
// deadlines. Call close() before the store is destroyed. Any thread.
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
  // Answers, if a rank has asked since the last call. `asked`: the number of the last question that
  // this rank has answered; updated.
  void answer(const std::string& group, int rank, const Place& place, std::int64_t& asked) noexcept;
  // Asks all ranks, and returns their places by rank. Meanwhile this rank goes on answering. An
  // element is nullopt for this rank, and for a rank that has not answered before the patience
  // ended or `stops` returned true. Returns nullopt if there is no store or it does not answer.
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
