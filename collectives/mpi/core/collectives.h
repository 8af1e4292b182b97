// Collectives: the collectives of one group. They run one at a time in the order of their numbers.
//
// A collective begins with one small MPI_Iallgather, in which every rank announces what it calls; a
// small payload is part of it, and then nothing more is needed. Other data moves only after all
// ranks have called the same, with MPI_Ibcast or directly between the ranks. For a reduction the
// ranks exchange unreduced shares, and each rank sums a part of them in rank order with dlrun's own
// kernels. So the result has the same bits on every rank with every MPI; half precision is rounded
// once, and NaN and signed zeros behave as in the other backends. A rank sends 2 (p-1)/p of the
// buffer, as the best algorithms do.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collectives/mpi/core/operation.h"
#include "collectives/mpi/wire/peers.h"
#include "collectives/mpi/wire/requests.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/pending/ledger.h"

namespace dl::collectives::mpi {

// Thrown if ranks have called different collectives: every rank finds it itself.
struct Disagreement {
  Cause cause;
};

class Collectives {
 public:
  Collectives(Requests& requests, Peers& peers, Ledger& ledger)
      : requests_(requests), peers_(peers), ledger_(ledger) {}

  // Numbers the collective, and starts it if no other one runs.
  void submit(const Ref<Collective>& collective);
  // Goes on with the running one; true if it moved. Throws a Disagreement, and a GroupError for
  // parts that do not fit.
  bool advance();

  // The first one runs.
  const std::deque<Ref<Collective>>& under_way() const noexcept { return queue_; }
  std::deque<Ref<Collective>> take_all() noexcept { return std::exchange(queue_, {}); }

 private:
  void announce(Collective& c);
  // Continues after the requests of the previous stage have ended. Returns false if the operation
  // is over.
  bool go_on(Collective& c);
  void agree(const Collective& c);
  void finish_inline(Collective& c);
  void exchange_counts(Collective& c);
  void compare_counts(const Collective& c) const;
  // Throws if rank `from` sends another count than rank `to` expects.
  void compare_part(const Collective& c, int from, std::uint64_t sent, int to,
                    std::uint64_t expected) const;
  bool start_data(Collective& c);
  void move_parts(Collective& c);
  bool start_slice(Collective& c);
  void combine_slice(Collective& c);
  void spread_slice(Collective& c);
  std::size_t slice_offset(const Collective& c, int rank) const noexcept;

  Requests& requests_;
  Peers& peers_;
  Ledger& ledger_;
  std::uint64_t next_ = 1;
  std::deque<Ref<Collective>> queue_;
};

}  // namespace dl::collectives::mpi
