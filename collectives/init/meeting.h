// Meeting: the store at which the ranks of a job find each other, by init method.
//
// Owns the store, and on rank 0 whatever serves it; must outlive what uses the store. Any thread.
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

  virtual rendezvous::Store& store() noexcept = 0;
  // What the ranks prove to each other; nullopt: one host only.
  const std::optional<rendezvous::JobKey>& key() const noexcept { return key_; }
  // A host whose way leads to the other ranks; empty: not known.
  const std::string& route_to() const noexcept { return route_to_; }

 protected:
  Meeting() = default;
  std::optional<rendezvous::JobKey> key_;
  std::string route_to_;
};

struct MeetingOptions {
  std::string init_method = "env://";
  Launch launch{};
  std::string job = "local";
  std::uint64_t generation = 0;
};

// Throws kInvalidArgument for an init method that is not known or lacks something, and what the
// connection to the store throws.
std::unique_ptr<Meeting> make_meeting(const MeetingOptions& options, Deadline deadline);

}  // namespace dl::collectives
