// Meeting: the store through which the ranks of a job find each other. The init method says which
// store that is.
//
// Every init has its own prefix in the store, "init/NAME/n/" (attendance/attendance.h). The store
// counts the inits, so this also works for several programs that run one after the other in one
// job.
//
// Owns its connection to the store, and must outlive all users of the store. If rank 0 serves the
// store, it does so until its process ends: other ranks may reach their next init before rank 0 has
// left this one. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/init/launch.h"
#include "core/base/deadline.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

class Meeting {
 public:
  virtual ~Meeting() = default;
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // The store with the prefix of this init.
  virtual rendezvous::Store& store() noexcept = 0;
  // The key of the job; nullopt: there is none, and all ranks must be on one host.
  const std::optional<rendezvous::JobKey>& key() const noexcept { return key_; }
  // True if every rank has called announce() in the store (roster.h).
  bool all_announced() const noexcept { return all_announced_; }
  // Call it when the group is made. If the init fails before that, the destructor waits only
  // briefly.
  virtual void joined() noexcept {}
  // See GroupOptions, check_making and check_absent. Both throw what Attendance throws.
  virtual void check() = 0;
  virtual void check_absent(int rank) = 0;
  // A host towards which this rank reaches the others; empty: not known.
  const std::string& route_to() const noexcept { return route_to_; }

 protected:
  Meeting() = default;
  std::optional<rendezvous::JobKey> key_;
  std::string route_to_;
  bool all_announced_ = false;
};

struct MeetingOptions {
  std::string init_method = "env://";
  std::string name = "world";  // of the group
  Launch launch{};
  std::string job = "local";
  std::uint64_t generation = 0;
  int job_rank = -1;                   // in a job of dlrun: this rank's number there
  std::chrono::nanoseconds timeout{};  // of the init, for texts
};

// Throws kInvalidArgument unless it is env://, tcp://host:port or file:///directory.
void check_init_method(std::string_view method);
// Throws kInvalidArgument for an unknown or incomplete init method, and what the connection to the
// store throws.
std::unique_ptr<Meeting> make_meeting(const MeetingOptions& options, Deadline deadline);

}  // namespace dl::collectives
