// Watch: notices that a rank is gone: its process has ended, or it no longer listens at its place.
//
// One thread at a time.
#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/identity.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/socket/address.h"

namespace dl::collectives::meet {

// The addresses in the text of a Place. The local one begins with '@'.
struct Ways {
  std::string local{};  // without the '@'; empty: there is none
  std::vector<rendezvous::Endpoint> hosts{};
};
Ways ways_of(std::string_view address);

class Watch {
 public:
  Watch(const Identity& who, std::string_view address);

  bool is_gone() const noexcept { return is_gone_; }
  // Descriptors to poll, and what became of them.
  void add_to(std::vector<pollfd>& polled) const;
  void react(std::span<const pollfd> polled);

 private:
  // A connection in the listener's queue, which ends with the listener.
  struct Probe {
    UniqueFd fd;
    bool is_connected = false;
  };
  void probe();
  // Returns false if the listener is gone.
  bool is_there(Probe& probe);

  const Ways ways_;
  UniqueFd process_;
  std::vector<Probe> probes_;
  bool was_refused_ = false;
  bool is_gone_ = false;
};

}  // namespace dl::collectives::meet
