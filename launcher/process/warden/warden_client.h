// WardenClient: dlrun's end of the connection to its warden (warden.h). It begins generations,
// starts helpers, and reports when a generation is swept or the warden is gone.
//
// One thread; the io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/process/supervisor/channel_client.h"
#include "launcher/process/warden/warden.h"

namespace dl::launcher {

struct Helper {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;       // added to dlrun's own
  std::vector<std::pair<UniqueFd, int>> fds;  // each with its number in the helper
};

class WardenClient {
 public:
  struct Events {
    // No process of the generation is left. `status`: the supervisor's waitpid() status.
    std::function<void(int status)> on_swept;
    // The supervisor of a generation could not be forked, so the generation has no process.
    // `error`: an errno value.
    std::function<void(int error)> on_no_supervisor;
    // The warden is dead. `status`: its waitpid() status, if it is known.
    std::function<void(std::optional<int> status)> on_gone;
  };

  WardenClient(boost::asio::io_context& io, WardenHandle handle);
  void on_events(Events events) { events_ = std::move(events); }

  // Begins the next generation and returns the channel to its supervisor. The previous generation
  // must be swept.
  UniqueFd begin_generation();
  // Continues a stopped warden, because it must sweep now.
  void wake();
  // Kills the warden. From now on dlrun itself does what the warden did not do.
  void kill();
  // Waits for a warden that is dead or dying, to get its status. Calls on_gone first.
  void wait_for_end();

  // `on_news` gets kStarted, kNotStarted and kExited of this helper. A helper gets no signal if
  // dlrun dies before it, so it must end when its standard input closes.
  std::uint32_t start_helper(Helper helper, std::function<void(const Message&)> on_news);
  void signal_helper(std::uint32_t slot, int signal);
  // To be called when the warden is gone and its helpers are children of this process: kills them,
  // and reports the end of each, as the warden would.
  void end_orphans();

 private:
  void on_message(const Message& message);

  pid_t pid_;  // -1: it has been waited for
  Events events_;
  UniqueFd first_supervisor_;
  std::uint32_t next_slot_ = 0;
  std::map<std::uint32_t, std::function<void(const Message&)>> helpers_;
  ChannelClient channel_;
};

// How a helper ended, from kExited or kNotStarted: "was killed by signal 9 (SIGKILL)", "could not
// be started: ...".
std::string how_helper_ended(const Message& news);

}  // namespace dl::launcher
