// Attendance: one init of this rank, in the store of its generation (docs/protocol.md, "Keys").
//
// Every init of a group's name has a place of its own in the store, so that no rank reads the
// remains of an earlier one. A rank's n-th init meets the n-th init of the others. If they have
// given up and begun another init, this rank joins it: so ranks that try again and again meet.
//
// A rank that waits long looks why another one does not come: it waits in the init of a group of
// another name, or two processes have come as one rank, or the others have begun another init.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/call/identity.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "rendezvous/net/cause.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// The other ranks have begun another init of the group.
class Superseded final : public Error {
 public:
  explicit Superseded(const std::string& group);
};

// A number that differs from those of earlier processes, which may have had the same pid.
std::string this_run();

class Attendance {
 public:
  // Takes the rank's place among the others. Throws kMismatch if another process waits in the init
  // as this rank; that process and all other ranks get the same error.
  Attendance(rendezvous::Store& generation, std::string name, Identity self, Deadline deadline);
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // The prefix of the keys of this init.
  std::string place() const;

  // Throws Superseded, or kMismatch if two processes are one rank. Looks no more often than is
  // useful.
  void check();
  // Looks at once, and throws what check() throws, and kMismatch if `rank` is in the init of a
  // group with another name, in which this rank has not been.
  void check_absent(int rank);
  // The init is over.
  void leave() noexcept;

  // For a store that outlives its processes: notes in it that this process has come as its rank.
  // False if another process has before, in an earlier run or in an init that is over; throws
  // kMismatch, as above, if the other process is in the init.
  static bool enter_once(rendezvous::Store& generation, const std::string& name,
                         const Identity& self, Deadline deadline);

 private:
  static void refuse_twin(rendezvous::Store& generation, const std::string& name,
                          const Identity& self, Deadline deadline);
  void look(Deadline soon);
  void claim(Deadline deadline);
  void begin(Deadline deadline);
  void look_at_name(int rank, Deadline soon);
  void look_for_twin(Deadline soon);
  // Tells another process that has come as this rank, if there is one, and returns what it is told.
  std::optional<rendezvous::Cause> answer_twin(Deadline soon);

  rendezvous::Store& generation_;
  const std::string name_;
  const Identity self_;
  const Deadline deadline_;
  std::int64_t number_ = 0;
  bool has_said_ = false;
  bool has_claimed_ = false;
  Deadline next_look_ = Deadline::after({});
};

}  // namespace dl::collectives
