// The signals that dlrun gets: what each means, and how they come to the event loop.
//
// A signal that means anything is blocked and read from a signalfd: no handler interrupts dlrun,
// and the sender is known. A crash of dlrun itself (SIGSEGV) still ends it at once, because the
// kernel lets no process block a signal that its own fault causes.
//
// The mask is a thread's, and threads and children inherit it: the supervisor sets its own, and
// gives its ranks an empty one (spawn.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>

namespace dl::launcher {

enum class SignalMeaning : std::uint8_t {
  kEndJob,   // its default action ends a process: the job ends in order
  kSuspend,  // stop the ranks, then dlrun
  kReport,   // say where the job stands
  kForward,  // the ranks get it
  kSystem,   // left to the system: what cannot be caught, and what does nothing to a process
};

// Linux has the numbers from 1 to 64.
SignalMeaning meaning_of(int signal) noexcept;

// Whether a second such signal means that a person is impatient. Signals of limits and timers are
// repeated by the kernel.
bool is_of_a_person(int signal) noexcept;

class JobSignals {
 public:
  // For the time before anything is started. What dlrun is asked waits until it looks at signals,
  // and a file that may not grow (ulimit -f) is an error of its write.
  static void hold_what_ends_nothing();
  // From now on signals wait for a JobSignals. One that dlrun was started with as ignored (nohup,
  // `&` in a script) stays so, and one that a tool inside dlrun handles stays the tool's.
  static void hold();

  // Signals that hold() has held, too. `on_signal` is called in the event loop, which must outlive
  // this. Throws kIo.
  JobSignals(boost::asio::io_context& io, std::function<void(int)> on_signal);

 private:
  void wait();
  void take();

  boost::asio::posix::stream_descriptor waiting_;
  std::function<void(int)> on_signal_;
};

}  // namespace dl::launcher
