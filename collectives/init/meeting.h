// Meeting: the store at which the ranks of a job find each other, by init method.
//
// Every init of a rank has a place of its own in the store, "init/NAME/n/": a rank's n-th init of a
// group's name meets the n-th of the others, and none reads what an earlier one has left. The store
// counts, so that this also holds for several programs that run one after the other in one job.
//
// Owns its way to the store, which must outlive what uses the store. Where rank 0 serves the store
// itself, it goes on until its process ends: the others may come to their next init before rank 0
// has left this one. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/init/launch.h"
#include "core/base/deadline.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/store.h"

namespace dl::collectives {

class Meeting {
 public:
  virtual ~Meeting() = default;
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // The place of this init.
  virtual rendezvous::Store& store() noexcept = 0;
  // What the ranks prove to each other; nullopt: one host only.
  const std::optional<rendezvous::JobKey>& key() const noexcept { return key_; }
  // Every rank has called say_here() in the store (roster.h).
  bool all_say_here() const noexcept { return all_say_here_; }
  // The group is made. Before that, a failed init leaves quickly.
  virtual void joined() noexcept {}
  // A host whose way leads to the other ranks; empty: not known.
  const std::string& route_to() const noexcept { return route_to_; }

 protected:
  Meeting() = default;
  std::optional<rendezvous::JobKey> key_;
  std::string route_to_;
  bool all_say_here_ = false;
};

struct MeetingOptions {
  std::string init_method = "env://";
  std::string name = "world";  // of the group
  Launch launch{};
  std::string job = "local";
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout{};  // of the init, for texts
};

// Throws kInvalidArgument for an init method that is not known or lacks something, and what the
// connection to the store throws.
std::unique_ptr<Meeting> make_meeting(const MeetingOptions& options, Deadline deadline);

}  // namespace dl::collectives
