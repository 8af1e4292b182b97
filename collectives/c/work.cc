// The C interface's operations under way.
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <span>

#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "core/base/deadline.h"

using namespace dl::collectives;
using dl::collectives::c::EventAlarm;
using dl::collectives::c::guarded;
using dl::collectives::c::time_of;

namespace dl::collectives::c {

EventAlarm::EventAlarm() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw_errno(errno, "eventfd");
}

void EventAlarm::ring() noexcept {
  ::eventfd_write(fd_.get(), 1);
}

}  // namespace dl::collectives::c

namespace {

dl_work& given(dl_work* work, std::string_view function) {
  DL_CHECK(work != nullptr, kInvalidArgument, "{}: the work is NULL", function);
  return *work;
}

int fd_of(dl_work& work) {
  const dl::Lock lock(work.mutex);
  if (!work.alarm) {
    const auto alarm = dl::make_ref<EventAlarm>();
    work.work->watch(alarm);
    work.alarm = alarm;
  }
  return work.alarm->fd();
}

bool is_over(const dl_work* work) {
  return work != nullptr && work->work->is_completed();
}

}  // namespace

dl_status dl_work_wait(dl_work* work) {
  const std::unique_ptr<dl_work> mine(work);
  return guarded([&] { given(work, "dl_work_wait").work->wait(); });
}

dl_status dl_work_wait_for(dl_work* work, double timeout_s) {
  return guarded([&] { given(work, "dl_work_wait_for").work->synchronize(time_of(timeout_s)); });
}

int dl_work_is_completed(const dl_work* work) {
  return work == nullptr || is_over(work) ? 1 : 0;
}

dl_status dl_work_error(const dl_work* work) {
  return guarded([&] {
    if (work == nullptr) return;
    if (const std::exception_ptr error = work->work->error()) std::rethrow_exception(error);
  });
}

int dl_work_source(const dl_work* work) {
  return work == nullptr ? -1 : work->work->source().value_or(-1);
}

int dl_work_source_of(const dl_work* work, size_t message) {
  return work == nullptr ? -1 : work->work->source_of(message).value_or(-1);
}

dl_status dl_work_fd(dl_work* work, int* fd) {
  return guarded([&] {
    DL_CHECK(fd != nullptr, kInvalidArgument, "dl_work_fd: fd is NULL");
    *fd = fd_of(given(work, "dl_work_fd"));
  });
}

dl_status dl_wait_any(dl_work* const* works, size_t count, double timeout_s, size_t* which) {
  return guarded([&] {
    DL_CHECK(which != nullptr && (works != nullptr || count == 0), kInvalidArgument,
             "dl_wait_any: works or which is NULL");
    const std::span<dl_work* const> all(works, count);
    const auto timeout = time_of(timeout_s);
    const Deadline until = timeout ? Deadline::after(*timeout) : Deadline::never();
    std::vector<pollfd> polled;
    for (;;) {
      const auto over = std::ranges::find_if(all, is_over);
      if (over != all.end()) {
        *which = static_cast<size_t>(over - all.begin());
        return;
      }
      if (polled.empty()) {
        for (dl_work* const work : all) {
          if (work != nullptr) polled.push_back({fd_of(*work), POLLIN, 0});
        }
        DL_CHECK(!polled.empty(), kInvalidArgument, "wait_any: there is no work to wait for");
        continue;  // it may be over since
      }
      DL_CHECK(!until.has_passed(), kTimeout,
               "wait_any: none of {} operations is over after {} s; they continue", polled.size(),
               timeout_s);
      ::poll(polled.data(), polled.size(), until.poll_timeout());
    }
  });
}

int dl_test_all(dl_work* const* works, size_t count) {
  const std::span<dl_work* const> all(works, works == nullptr ? 0 : count);
  return std::ranges::all_of(all, [](const dl_work* w) { return dl_work_is_completed(w) != 0; });
}

void dl_work_free(dl_work* work) {
  delete work;
}
