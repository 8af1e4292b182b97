// dlrun's view of the processes below it: begins generations, starts helpers, and hears when a
// generation is swept or the warden is gone (warden.h).
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

#include "core/base/unique_fd.h"
#include "launcher/process/channel_client.h"
#include "launcher/process/warden.h"

namespace dl::launcher {

struct Helper {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;       // over dlrun's own
  std::vector<std::pair<UniqueFd, int>> fds;  // and the number of each in the helper
};

class WardenClient {
 public:
  struct Events {
    // No process of the generation is left; `status`: the supervisor's, as waitpid() gives it.
    std::function<void(int status)> on_swept;
    // The supervisor of a generation could not be forked: the generation has no process. `error`:
    // an errno value.
    std::function<void(int error)> on_no_supervisor;
    // The warden is dead; its status, if it is known.
    std::function<void(std::optional<int> status)> on_gone;
  };

  WardenClient(boost::asio::io_context& io, WardenHandle handle);
  void on_events(Events events) { events_ = std::move(events); }

  // The channel to the supervisor of the next generation. The one before must be swept.
  UniqueFd begin_generation();
  // Wakes a warden that is stopped, as it has to sweep now.
  void wake();
  // From now on dlrun itself does what the warden did not do.
  void kill();
  // Waits for a warden that is dead or dying, so that its status is known; on_gone is called first.
  void wait_for_end();

  // `on_news` gets kStarted, kNotStarted and kExited of this helper. A helper gets no signal when
  // dlrun dies before it, so it must end when its standard input closes.
  std::uint32_t start_helper(Helper helper, std::function<void(const Message&)> on_news);
  void signal_helper(std::uint32_t slot, int signal);
  // The warden is gone and its helpers are this process's children: kills them, and tells of the
  // end of each, as the warden would.
  void end_orphans();

 private:
  void on_message(Message message);

  pid_t pid_;  // -1: it has been waited for
  Events events_;
  UniqueFd first_supervisor_;
  std::uint32_t next_slot_ = 0;
  std::map<std::uint32_t, std::function<void(const Message&)>> helpers_;
  ChannelClient channel_;
};

}  // namespace dl::launcher
