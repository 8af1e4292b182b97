#include "collectives/tcp/core/work.h"

#include <string>

#include "collectives/process/at_exit.h"
#include "collectives/waiting/still_running.h"

namespace dl::collectives::tcp {
namespace {

// After its deadline a rank waits this long for the other ranks' answers, so that it names only
// ranks that are missing.
constexpr std::chrono::milliseconds kAnswerTime{100};

}  // namespace

void Waiter::wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit) const {
  if (is_in_child()) core->status().throw_if_broken();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  if (engine->help(operation, core->group().policy, until) || operation.sleep_until(until)) return;
  const auto asked = Deadline::Clock::now();
  const Deadline answers = Deadline::after(kAnswerTime);
  engine->inspect([&](const Role& role) { core->driver(role).ask_peers(); });
  bool are_heard = false;
  while (!are_heard && !operation.is_over()) {
    const std::uint64_t known = core->news().count();
    engine->inspect(
        [&](const Role& role) { are_heard = core->driver(role).peers().have_answered(asked); });
    if (are_heard || !core->news().wait(known, answers)) break;
  }
  std::string missing;
  engine->inspect(
      [&](const Role& role) { missing = core->driver(role).missing(operation, asked).text; });
  if (operation.is_over()) return;
  stay_if_exiting();
  throw StillRunning(text(operation.descriptor), *limit, missing);
}

}  // namespace dl::collectives::tcp
