#include "launcher/agent/ending/overseers.h"

#include <fmt/core.h>

#include <utility>

#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"

namespace dl::launcher {

Overseers::Overseers(boost::asio::io_context& io, WardenHandle warden,
                     const Generations& generations, Alarm& alarm, Events events)
    : warden_(io, std::move(warden)),
      generations_(generations),
      alarm_(alarm),
      events_(std::move(events)) {
  warden_.on_events({.on_swept = [this](int status) { on_swept(status); },
                     .on_no_supervisor = [this](int error) { on_no_supervisor(error); },
                     .on_gone = [this](std::optional<int> status) { on_warden_gone(status); }});
}

void Overseers::lose_supervisor() {
  if (is_over_ || std::exchange(supervisor_is_lost_, true)) return;
  if (warden_is_gone_) {
    end_without_supervisor("the warden and the supervisor are gone; all ranks were ended");
    return;
  }
  warden_.wake();  // it says kSwept
  alarm_.set(kTimeToEndTree, [this] { on_warden_late(); });
}

void Overseers::on_warden_late() {
  warden_.kill();
  warden_.wait_for_end();
}

void Overseers::on_swept(int status) {
  if (is_over_) return;
  const Generation* const generation = generations_.current();
  // The supervisor's own message, on another channel, may still be unread.
  if (generation != nullptr && generation->is_to_finish() && status == 0) {
    events_.on_swept();
    return;
  }
  end_without_supervisor(
      fmt::format("the supervisor {}; all ranks were ended", how_it_ended(status)));
}

void Overseers::on_no_supervisor(int error) {
  if (is_over_) return;
  end_without_supervisor(fmt::format("the supervisor of the ranks could not be started: fork: {}",
                                     spawn_error_text(error)));
}

void Overseers::end_without_supervisor(const std::string& why) {
  supervisor_is_lost_ = true;
  alarm_.cancel();
  if (Generation* const generation = generations_.current()) generation->forget_ranks();
  events_.on_supervisor_gone(why);
}

void Overseers::on_warden_gone(std::optional<int> status) {
  if (is_over_) return;
  warden_is_gone_ = true;
  const std::string how = "the warden " + how_it_ended(status.value_or(0));
  if (supervisor_is_lost_) {
    end_without_supervisor(how + ", and the supervisor is gone too; all ranks were ended");
    return;
  }
  events_.on_warden_gone(how + "; all ranks were ended");
}

}  // namespace dl::launcher
