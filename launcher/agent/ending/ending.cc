#include "launcher/agent/ending/ending.h"

#include <signal.h>

#include <utility>

#include "launcher/nodes/other_nodes.h"
#include "launcher/process/supervisor/supervisor.h"

namespace dl::launcher {

Ending::Ending(boost::asio::io_context& io, bool has_others, Times times, Parts parts,
               Events events)
    : has_others_(has_others),
      times_(times),
      parts_(parts),
      events_(std::move(events)),
      machine_(has_others),
      grace_alarm_(io),
      verdict_alarm_(io) {}

void Ending::act(const EndMachine::Actions& actions) {
  for (const EndMachine::Action action : actions) act(action);
}

void Ending::act(EndMachine::Action action) {
  using Do = EndMachine::Do;
  const auto name_left = [this] { act(machine_.silence_over(parts_.cleanup.name_left())); };
  switch (action.what) {
    case Do::kSignalRanks:
      parts_.saving.announce_end();
      if (Generation* const ranks = parts_.generations.current()) ranks->stop(action.signal);
      parts_.cleanup.wake_overseers();
      return;
    case Do::kStartGrace:
      grace_alarm_.set(times_.grace, [this] { act(machine_.grace_over()); });
      return;
    case Do::kKillRanks:
      if (Generation* const ranks = parts_.generations.current()) ranks->signal(SIGKILL);
      parts_.cleanup.wake_overseers();
      return;
    case Do::kWatchKilled:
      parts_.left_alarm.set(Cleanup::kSilence, name_left);
      return;
    case Do::kWatchSwept:
      parts_.left_alarm.set(kLastGrace + Cleanup::kSilence, name_left);
      return;
    case Do::kWatchToGiveUp:
      parts_.left_alarm.set(Cleanup::kMostKilling - Cleanup::kSilence,
                            [this] { act(machine_.patience_over()); });
      return;
    case Do::kSayDone:
      events_.say_done();
      return;
    case Do::kAwaitVerdict:
      // The service names one first cause to all nodes. If no answer comes, this node's own verdict
      // counts.
      verdict_alarm_.set(OtherNodes::kFarewell, [this] { others_agreed(); });
      return;
    case Do::kDecide:
      act(machine_.decided(events_.on_verdict()));
      return;
    case Do::kLeaveOthers:
      events_.leave_others();
      return;
    case Do::kLinger:
      linger();
      return;
    case Do::kSweep:
      sweep(Leftovers::kEnd);
      return;
    case Do::kSweepNow:
      sweep(Leftovers::kKill);
      return;
    case Do::kGiveUp:
      parts_.cleanup.give_up();
      events_.on_over();
      return;
    case Do::kOver:
      for (Alarm* const alarm : {&grace_alarm_, &verdict_alarm_, &parts_.left_alarm}) {
        alarm->cancel();
      }
      parts_.cleanup.stop_lingering();
      if (machine_.begins_again()) {
        events_.on_next();
      } else {
        events_.on_over();
      }
      return;
  }
}

void Ending::linger() {
  events_.close_store();
  parts_.saving.announce_end();
  if (!parts_.cleanup.linger(times_.linger, [this] { linger_over(); })) swept();
}

void Ending::sweep(Leftovers order) {
  grace_alarm_.cancel();
  verdict_alarm_.cancel();
  if (!begins_again()) events_.close_store();
  if (!parts_.cleanup.sweep(order)) swept();
  parts_.cleanup.wake_overseers();
}

}  // namespace dl::launcher
