#include "collectives/tcp/core/operation.h"

#include "collectives/call/recording.h"
#include "collectives/process/at_exit.h"
#include "collectives/tcp/core/core.h"
#include "collectives/tcp/core/engine.h"
#include "collectives/waiting/still_running.h"
#include "core/base/error.h"

namespace dl::collectives::tcp {
namespace {

// After its deadline a rank waits this long for the other ranks' answers, so that it names only
// ranks that are missing.
constexpr std::chrono::milliseconds kAnswerTime{100};

}  // namespace

Operation::Operation(Ref<Engine> engine, Ref<Core> core, const Call& call,
                     std::chrono::nanoseconds time)
    : PendingWork("tcp", call, time), engine_(std::move(engine)), core_(std::move(core)) {
  waiting.begin(Deadline::Clock::now());
}

Operation::~Operation() = default;

bool Operation::is_completed() const noexcept {
  if (is_over() || core_->is_in_child()) return true;  // no thread drives it in a child
  engine_->poll();
  return is_over();
}

std::exception_ptr Operation::error() const noexcept {
  return is_over() || !core_->is_in_child() ? PendingWork::error() : core_->error();
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  if (!is_over()) {
    const profiler::Span span = wait_span();
    if (core_->is_in_child()) core_->throw_if_broken();
    const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
    if (!engine_->help(*this, core_->wait_policy(), until) && !sleep_until(until)) {
      const auto asked = Deadline::Clock::now();
      const Deadline answers = Deadline::after(kAnswerTime);
      engine_->inspect([&] { core_->ask_peers(); });
      bool are_heard = false;
      while (!are_heard && !is_over()) {
        const std::uint64_t known = core_->news();
        engine_->inspect([&] { are_heard = core_->have_answered(asked); });
        if (are_heard || !core_->wait_for_news(known, answers)) break;
      }
      std::string missing;
      engine_->inspect([&] { missing = core_->missing(*this, asked).text; });
      if (!is_over()) {
        stay_if_exiting();
        throw StillRunning(text(descriptor), *limit, missing);
      }
    }
  }
  if (const std::exception_ptr failed = error()) {
    stay_if_exiting();
    std::rethrow_exception(failed);
  }
}

void Operation::end(std::exception_ptr failed) noexcept {
  if (is_over()) return;
  if (failed) {
    core_->recorder().fail(slot);
  } else {
    core_->recorder().finish(slot);
  }
  PendingWork::end(std::move(failed), Deadline::Clock::now());
}

}  // namespace dl::collectives::tcp
