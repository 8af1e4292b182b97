// JobSignals: passes signals to the event loop.
//
// A signal with a meaning is blocked and read from a signalfd: so no handler interrupts dlrun, and
// the sender is known. A crash of dlrun itself (SIGSEGV) still ends it at once, because a process
// cannot block a signal that its own fault causes.
//
// SIGCHLD is blocked as well: dlrun reaps children that it has not started (descendants.h).
//
// The mask belongs to a thread, and threads and children inherit it. The supervisor sets its own
// mask, and gives its ranks an empty one (spawn.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "launcher/process/signal_meaning.h"

namespace dl::launcher {

class JobSignals {
 public:
  // To be called before anything is started. Blocks SIGUSR1 and SIGUSR2, which then wait until
  // dlrun looks at signals, and SIGXFSZ, so that a file that may not grow (ulimit -f) is an error
  // of its write. As process 1 of a container it blocks all that block_signals() does, so that a
  // SIGTERM of the first moments is not lost.
  static void block_report_signals();
  // Blocks the signals, which then wait for a JobSignals. A signal that was ignored at the start of
  // dlrun (nohup, `&` in a script) stays ignored, and a signal that a tool inside dlrun handles
  // stays with the tool.
  static void block_signals();

  // Also delivers the signals that block_signals() has blocked. `on_signal` is called in the event
  // loop, which must outlive this object. Throws kIo.
  JobSignals(boost::asio::io_context& io, std::function<void(int)> on_signal);

 private:
  void wait();
  void take();

  boost::asio::posix::stream_descriptor waiting_;
  std::function<void(int)> on_signal_;
};

}  // namespace dl::launcher
