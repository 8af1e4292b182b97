// EndMachine by table: events in, actions out.
#include "launcher/agent/ending/end_machine.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

namespace dl::launcher {
namespace {

using Do = EndMachine::Do;

const std::map<Do, std::string> kWords = {{Do::kSignalRanks, "signal"},
                                          {Do::kStartGrace, "grace"},
                                          {Do::kKillRanks, "kill"},
                                          {Do::kWatchKilled, "watch-killed"},
                                          {Do::kWatchSwept, "watch-swept"},
                                          {Do::kWatchToGiveUp, "watch-to-give-up"},
                                          {Do::kSayDone, "done"},
                                          {Do::kAwaitVerdict, "await"},
                                          {Do::kDecide, "decide"},
                                          {Do::kLeaveOthers, "leave"},
                                          {Do::kLinger, "linger"},
                                          {Do::kSweep, "sweep"},
                                          {Do::kSweepNow, "sweep-now"},
                                          {Do::kGiveUp, "give-up"},
                                          {Do::kOver, "over"}};

EndMachine::Actions feed(EndMachine& machine, const std::string& event) {
  if (event == "TERM") return machine.stop(15, false);
  if (event == "INT") return machine.stop(2, true);
  if (event == "well") return machine.ranks_ended(true);
  if (event == "failed") return machine.ranks_ended(false);
  if (event == "agreed") return machine.others_agreed();
  if (event == "end") return machine.decided(false);
  if (event == "again") return machine.decided(true);
  if (event == "left") return machine.others_left();
  if (event == "linger-over") return machine.linger_over();
  if (event == "swept") return machine.swept();
  if (event == "kill-now") return machine.kill_now();
  if (event == "grace-over") return machine.grace_over();
  if (event == "silence") return machine.silence_over(true);
  if (event == "nothing-left") return machine.silence_over(false);
  if (event == "patience-over") return machine.patience_over();
  ADD_FAILURE() << "no event " << event;
  return {};
}

// "INT: signal2 grace" for each event, with "; " between.
std::string run(bool has_others, const std::string& events) {
  EndMachine machine(has_others);
  std::string text;
  std::istringstream words(events);
  for (std::string event; words >> event;) {
    text += (text.empty() ? "" : "; ") + event + ":";
    for (const EndMachine::Action& action : feed(machine, event)) {
      text += " " + kWords.at(action.what);
      if (action.signal != 0) text += std::to_string(action.signal);
    }
  }
  return text;
}

struct Row {
  const char* what;
  bool has_others;
  const char* expected;  // its words before the colons are the events
};

// clang-format off
const Row kRows[] = {
  {"one node, all well", false,
   "well: decide; end: linger; swept: over"},
  {"what the ranks left behind outlasts its time", false,
   "well: decide; end: linger; linger-over: watch-swept sweep; linger-over:; swept: over"},
  {"one node, a failure", false,
   "TERM: signal15 grace; failed: decide; end: watch-swept sweep; swept: over"},
  {"one node, a failure, and again", false,
   "TERM: signal15 grace; failed: decide; again: watch-swept sweep; swept: over"},
  {"a rank that SIGTERM does not end", false,
   "TERM: signal15 grace; grace-over: kill watch-killed; failed: decide; end: watch-swept sweep; swept: over"},
  {"grace is over after the ranks", false,
   "TERM: signal15 grace; failed: decide; grace-over:; end: watch-swept sweep; swept: over"},
  {"a second Ctrl-C kills, and sweeps at once", false,
   "INT: signal2 grace; kill-now: kill watch-killed; failed: decide; end: watch-swept sweep-now; swept: over"},
  {"what SIGKILL does not end is named, then given up", false,
   "INT: signal2 grace; grace-over: kill watch-killed; silence: watch-to-give-up; patience-over: give-up"},
  {"a Ctrl-C after it was named gives it up", false,
   "INT: signal2 grace; kill-now: kill watch-killed; silence: watch-to-give-up; kill-now: give-up"},
  {"nothing was left: a further Ctrl-C kills once more", false,
   "INT: signal2 grace; nothing-left: watch-to-give-up; kill-now: kill watch-killed"},
  {"Ctrl-C while what the ranks left behind has time", false,
   "well: decide; end: linger; INT: signal2 watch-swept sweep; linger-over:; swept: over"},
  {"Ctrl-C while an old generation is swept: no next one", false,
   "TERM: signal15 grace; failed: decide; again: watch-swept sweep; INT:; swept: over"},
  {"several nodes, all well", true,
   "well: done; agreed: decide; end: leave; left: linger; swept: over"},
  {"a failure here", true,
   "TERM: signal15 grace; failed: await; agreed: decide; end: leave; left: watch-swept sweep; swept: over"},
  {"a failure here that another node's verdict must confirm", true,
   "failed:; TERM: signal15 await; agreed: decide; again: watch-swept sweep; swept: over"},
  {"a failure elsewhere", true,
   "TERM: signal15 grace; agreed:; failed: decide; end: leave; left: watch-swept sweep; swept: over"},
  {"a failure elsewhere after all ranks here ended well", true,
   "well: done; TERM: signal15 await; agreed: decide; again: watch-swept sweep; swept: over"},
  {"Ctrl-C while an old generation is swept: the others hear it", true,
   "TERM: signal15 grace; agreed:; failed: decide; again: watch-swept sweep; INT: leave; swept:; left: over"},
  {"the same, with the sweep later", true,
   "TERM: signal15 grace; agreed:; failed: decide; again: watch-swept sweep; INT: leave; left:; swept: over"},
  {"the other nodes are lost while ranks run", true,
   "INT: signal2 grace; agreed:; failed: decide; end: leave; left: watch-swept sweep; swept: over"},
  {"events that come twice, early or late do nothing", false,
   "swept:; end:; left:; linger-over:; well: decide; well:; end: linger; end:; swept: over; swept:; linger-over:; TERM:; kill-now:; silence:; patience-over:"},
};
// clang-format on

TEST(EndMachine, DoesWhatTheTableSays) {
  for (const Row& row : kRows) {
    std::string events;
    std::istringstream parts(row.expected);
    for (std::string part; std::getline(parts, part, ';');) {
      events += part.substr(0, part.find(':')) + " ";
    }
    EXPECT_EQ(run(row.has_others, events), row.expected) << row.what;
  }
}

// Ctrl-C, or a frontend that lost another host, while the ranks of a failed generation still end.
TEST(EndMachine, ANodeToldToEndBeforeTheDecisionDoesNotRestart) {
  EndMachine machine(/*has_others=*/true);
  for (const char* event : {"TERM", "INT", "agreed", "failed", "again"}) feed(machine, event);
  EXPECT_FALSE(machine.begins_again());
}

TEST(EndMachine, RestartsOnlyIfDecidedAndTheJobWasNotEnded) {
  EndMachine machine(false);
  machine.stop(15, false);
  machine.ranks_ended(false);
  machine.decided(true);
  EXPECT_TRUE(machine.begins_again());
  machine.stop(2, true);
  EXPECT_FALSE(machine.begins_again());
}

}  // namespace
}  // namespace dl::launcher
