// Outgoing: dlrun's memory that MPI reads: notes to other ranks, and copies of small messages.
//
// A copy costs credit of the rank that it goes to, until that rank has received it. A value of the
// group's Core; used under its lock.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "collectives/mpi/wire/requests.h"

namespace dl::collectives::mpi {

class Outgoing {
 public:
  Outgoing(Requests& requests, int ranks);

  struct Parcel {
    int to;
    std::vector<std::byte> memory;
    std::size_t cost = 0;        // of the receiver's credit, which gets it back at the end
    std::vector<Handle> open{};  // requests that read the memory
  };
  // Takes the cost from the credit. The caller starts the requests.
  Parcel& add(Parcel parcel);
  std::size_t credit(int to) const noexcept { return credit_[static_cast<std::size_t>(to)]; }

  bool is_empty() const noexcept { return parcels_.empty(); }
  // Drops what has been read; true if there was any.
  bool advance();

 private:
  Requests& requests_;
  std::list<Parcel> parcels_;
  std::vector<std::size_t> credit_;  // by rank
};

}  // namespace dl::collectives::mpi
