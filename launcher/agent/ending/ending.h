// Ending: ends the generations of one node, as EndMachine decides: it signals the ranks, sets the
// times, leaves the other nodes, and has the processes that are left swept.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>

#include "launcher/agent/ending/alarm.h"
#include "launcher/agent/ending/cleanup.h"
#include "launcher/agent/ending/end_machine.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/preempt/saving.h"

namespace dl::launcher {

class Ending {
 public:
  struct Events {
    // All ranks of this node have ended well: the other nodes are to know.
    std::function<void()> say_done;
    // No generation follows: the node leaves the others; others_left() follows.
    std::function<void()> leave_others;
    // No rank needs the store any more.
    std::function<void()> close_store;
    // All ranks have ended, and all nodes agree on why. Returns whether the next generation begins.
    std::function<bool()> on_verdict;
    // The generation is over, and the next one begins.
    std::function<void()> on_next;
    // The job is over on this node.
    std::function<void()> on_over;
  };
  // The parts of the agent that an end concerns.
  struct Parts {
    const Generations& generations;
    Saving& saving;
    Cleanup& cleanup;
    Alarm& left_alarm;  // for the processes that are left; Overseers has it too
  };
  struct Times {
    std::chrono::milliseconds grace;   // between the first signal to the ranks and SIGKILL
    std::chrono::milliseconds linger;  // for the processes that ranks which ended well have left
  };
  // `has_others`: the job has other nodes.
  Ending(boost::asio::io_context& io, bool has_others, Times times, Parts parts, Events events);

  // As in EndMachine.
  void stop(int signal, bool is_final) { act(machine_.stop(signal, is_final)); }
  void ranks_ended(bool all_well) { act(machine_.ranks_ended(all_well)); }
  void others_agreed() { act(machine_.others_agreed()); }
  void others_left() { act(machine_.others_left()); }
  void linger_over() { act(machine_.linger_over()); }
  void swept() { act(machine_.swept()); }
  void kill_now() { act(machine_.kill_now()); }
  bool is_stopping() const { return machine_.is_stopping(); }
  bool begins_again() const { return machine_.begins_again(); }

  // To be called in on_next().
  void begin_next() { machine_ = EndMachine(has_others_); }

 private:
  void act(const EndMachine::Actions& actions);
  void act(EndMachine::Action action);
  void linger();
  void sweep(Leftovers order);

  bool has_others_;
  Times times_;
  Parts parts_;
  Events events_;
  EndMachine machine_;
  Alarm grace_alarm_;
  Alarm verdict_alarm_;
};

}  // namespace dl::launcher
