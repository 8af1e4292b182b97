// Collectives: the collectives of one group. They run one at a time in the order of their numbers.
//
// A collective begins with one small MPI_Iallgather, in which every rank announces what it calls; a
// small payload is part of it, and then nothing more is needed. Other data moves only after all
// ranks have called the same, by the schedules that TCP runs too (traffic.h). dlrun's own kernels
// reduce it, so the result has the same bits on every rank with every MPI.
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
  void submit(const Ref<Collective>& collective, const Call& call, const Choices& choices);
  // Goes on with the running one; true if it moved. Throws a Disagreement, and a GroupError for
  // parts that do not fit.
  bool advance();

  // The first one runs.
  const std::deque<Ref<Collective>>& under_way() const noexcept { return queue_; }
  std::deque<Ref<Collective>> take_all() noexcept { return std::exchange(queue_, {}); }

 private:
  void announce(Collective& c);
  // After the requests of a stage have ended.
  void begin_next_stage(Collective& c);
  void agree(const Collective& c);
  void finish_inline(Collective& c);
  void exchange_counts(Collective& c);
  void compare_counts(const Collective& c) const;
  // Throws if rank `from` sends another count than rank `to` expects.
  void compare_part(const Collective& c, int from, std::uint64_t sent, int to,
                    std::uint64_t expected) const;

  Requests& requests_;
  Peers& peers_;
  Ledger& ledger_;
  std::uint64_t next_ = 1;
  std::deque<Ref<Collective>> queue_;
};

}  // namespace dl::collectives::mpi
