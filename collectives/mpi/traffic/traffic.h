// Traffic: moves the slices of a collective's schedule as MPI messages.
//
// Both ranks know the length of each slice, so that no headers are needed, and transfers of zero
// bytes send nothing: the ranks have agreed on the call before. MPI keeps the slices between two
// ranks in order. A value of the Collective; used under the lock of the group's Core.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/algorithms/execution/execution.h"
#include "collectives/mpi/wire/requests.h"

namespace dl::collectives::mpi {

class Traffic {
 public:
  Traffic(const Call& call, Schedule schedule, int rank, int size, const Requests& requests)
      : execution_(
            call, std::move(schedule), size,
            {.least = requests.least_slice(), .most = kMostSlice, .small = requests.small_slice()}),
        rank_(rank),
        lanes_(static_cast<std::size_t>(size)) {}

  Algorithm algorithm() const noexcept { return execution_.algorithm(); }
  // Starts what can start and takes what has ended; true if anything did.
  bool advance(Requests& requests);
  bool is_over() const noexcept { return execution_.is_finished(); }
  // True if MPI uses the call's buffers.
  bool has_requests() const noexcept;

 private:
  // A message costs more than a frame of TCP: with TCP's slice sizes, collectives of 256 KiB and
  // 2 MiB took 1.3 to 1.8 times as long.
  static constexpr std::size_t kMostSlice = 2 * 1024 * 1024;
  // Most requests under way to one rank, or from it.
  static constexpr std::size_t kDepth = 4;
  struct Flight {
    Handle request = 0;  // 0: it has ended
    const std::byte* bytes = nullptr;
    std::size_t count = 0;
    std::unique_ptr<std::byte[]> own{};  // memory for bytes that are reduced, kept for the next one
  };
  // Requests under way in one direction, oldest first.
  struct Lane {
    std::array<Flight, kDepth> flights{};
    std::size_t first = 0, count = 0;
    Flight& at(std::size_t i) noexcept { return flights[(first + i) % kDepth]; }  // 0: the oldest
    const Flight& at(std::size_t i) const noexcept { return flights[(first + i) % kDepth]; }
    Flight& next() noexcept { return at(count); }
    void push() noexcept { ++count; }
    bool is_full() const noexcept { return count == kDepth; }
    void pop() noexcept { ++first, --count; }
  };
  struct Lanes {  // to and from one rank
    Lane out, in;
  };
  // Notes which requests have ended; true if any has.
  bool end_some(Requests& requests);
  // Takes the slices of one peer that have ended.
  void take(int peer);
  // Start what may start; true if a transfer without bytes was over at once.
  bool receive(int peer, Requests& requests);
  bool send(int peer, Requests& requests);

  Execution execution_;
  const int rank_;
  std::vector<Lanes> lanes_;
  bool has_begun_ = false;
};

}  // namespace dl::collectives::mpi
