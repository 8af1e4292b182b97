// Place: how the ranks of a group find each other again after some of them have died.
//
// Every rank listens as long as its group lives, and answers only in agree(). Until then the
// kernel keeps the others' connections in the listener's queue, and ends them when the process
// ends. So a rank costs no thread and no work, and its death is known at once, also if it dies
// while others wait for it.
//
// Owns the listener. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/join/meet/exchange.h"
#include "core/base/deadline.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::collectives::meet {

struct Member {
  int seat = 0;  // its rank in the first group; it never changes
  Identity who{};
  std::string address{};  // of its Place
};

class Place {
 public:
  // Listens. Without a key the ranks must be on this host and run as one user. `iface`: as in
  // listen_for_hosts().
  Place(const std::optional<rendezvous::JobKey>& key, const std::string& iface);

  // One word or several, for the other ranks.
  std::string address() const;

  // To be called when the first group is made. `hello`: with the job and its generation.
  void settle(const std::string& group, rendezvous::Hello hello, std::vector<Member> members,
              int self, bool leaves_host);

  struct Agreed {
    std::unique_ptr<Exchange> exchange;  // between the members of the new group
    rendezvous::JobKey key;              // a fresh one, for the new group
    std::uint64_t generation = 0;        // counts the groups, from 1
    int rank = 0;
    int size = 1;
  };
  // Collective over all ranks that live: they agree who they are, in the order of their seats. The
  // lowest is the host. If it dies meanwhile, the next one is. A rank counts as dead once its
  // process has ended or has left the group. One that lives, but does not call, or that cannot be
  // reached, is waited for: so two groups never form with one rank in both. Throws kTimeout naming
  // it. May be called again, after an error too.
  Agreed agree(std::chrono::nanoseconds timeout, Deadline deadline);

 private:
  ExchangeOptions exchange_options(std::chrono::nanoseconds timeout) const;
  // Nullopt if the member is gone.
  std::optional<Agreed> join(const Member& member, std::chrono::nanoseconds timeout,
                             Deadline deadline);
  std::optional<rendezvous::Connection> dial(const Member& member, const ExchangeOptions& options,
                                             Deadline deadline) const;
  Agreed host(std::chrono::nanoseconds timeout, Deadline deadline);
  // Goes on as a member of the group in this line of the host's.
  Agreed enter(const std::string& line);

  rendezvous::JobKey key_;
  std::string group_;
  rendezvous::Hello hello_;
  std::optional<rendezvous::Listener> local_;  // the only one if all members are on this host
  std::optional<rendezvous::Listener> hosts_;
  std::string local_name_, hosts_names_;
  std::vector<Member> members_;  // of the group with number generation_
  int seat_ = 0;
  int seats_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace dl::collectives::meet
