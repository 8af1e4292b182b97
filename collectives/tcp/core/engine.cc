#include "collectives/tcp/core/engine.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "collectives/tcp/core/core.h"
#include "core/base/error.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/system/machine/thread.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kParkTime = 1ms;
// A caller that has waited this long yields its core between two polls. A yield costs a third of a
// microsecond on an idle core. A caller that only spins could lose its core for a whole time slice,
// or keep the rank that it waits for from running.
constexpr auto kSpinBeforeYield = 50us;
// Deadlines of operations for which no thread waits are noticed at most this late.
constexpr auto kLongestSleep = 50ms;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Engine::Engine()
    : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      next_timer_(Clock::time_point::max().time_since_epoch().count()) {
  if (!event_) throw_errno(errno, "eventfd");
  parent_only_.add(event_.get());
  thread_ = make_thread("the engine of tcp groups", [this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "dlrun-progress");
}

Engine::~Engine() {
  stopping_.store(true);
  wake();
  unpark();
  thread_.join();
}

void Engine::post(Request request, bool drive_now) {
  {
    const Lock lock(inbox_mutex_);
    inbox_.push_back(std::move(request));
  }
  has_requests_.store(true);
  Role role(driving_);
  if (drive_now && role.take()) {
    drive(role);
    give_back(role);
  } else if (sleeping_.load()) {
    wake();
  }
}

// Sequentially consistent on both sides: either the poster's take() sees the role free, or this
// load of has_requests_ sees the request.
void Engine::give_back(Role& role) {
  role.give_back();
  while (has_requests_.load() && role.take()) {
    drive(role);
    role.give_back();
  }
}

void Engine::poll() {
  Role role(driving_);
  if (!role.take()) return;
  drive(role);
  give_back(role);
}

bool Engine::drive(const Role& role) {
  if (has_requests_.exchange(false)) {
    std::vector<Request> requests;
    {
      const Lock lock(inbox_mutex_);
      requests.swap(inbox_);
    }
    for (Request& request : requests) execute(request, role);
  }
  bool more = links_.poll();
  const Clock::time_point now = Clock::now();
  Clock::time_point timer = Clock::time_point::max();
  for (const Group& group : groups_) {
    more |= group.driver->advance(now);
    timer = std::min(timer, group.driver->next_timer());
  }
  // Close sockets here: no event of this round can still refer to them.
  std::erase_if(groups_, [](const Group& group) { return group.driver->close_if_retired(); });
  under_way_.store(
      std::ranges::any_of(groups_, [](const Group& group) { return !group.driver->is_idle(); }));
  if (!groups_.empty()) timer = std::min(timer, now + kLongestSleep);
  next_timer_.store(timer.time_since_epoch().count());
  // Sequentially consistent on both sides, as above: a thread that has just gone to sleep for too
  // long is either seen here, or sees the new timer.
  if (sleeping_.load() && timer.time_since_epoch().count() < sleeps_until_.load()) wake();
  return more;
}

void Engine::execute(Request& request, const Role& role) {
  Driver& driver = request.core->driver(role);
  switch (request.kind) {
    case Request::Kind::kAdd:
      groups_.push_back({std::move(request.core), &driver});
      driver.begin();
      break;
    case Request::Kind::kStart:
      driver.start(std::move(request.operation));
      break;
    case Request::Kind::kFail:
      driver.fail(std::move(request.cause), request.completes_until);
      break;
    case Request::Kind::kRetire:
      driver.retire();
      break;
    case Request::Kind::kLeave:
      driver.leave_at_exit();
      break;
  }
}

bool Engine::help(const Operation& operation, const WaitPolicy& policy, Deadline deadline) {
  if (operation.is_over()) return true;
  helpers_.fetch_add(1);
  helps_.fetch_add(1);
  Clock::time_point quiet_since = Clock::now();
  Role role(driving_);
  bool over = false;
  for (;;) {
    bool moved = false;
    if (role.take()) {
      moved = drive(role);
      give_back(role);
    } else {
      relax();
    }
    over = operation.is_over();
    if (over) break;
    const Clock::time_point now = Clock::now();
    if (moved) {
      quiet_since = now;
    } else if (now - quiet_since >= policy.spin || deadline.has_passed(now)) {
      break;
    } else if (policy.yields || now - quiet_since >= kSpinBeforeYield) {
      ::sched_yield();
    }
  }
  const bool last = helpers_.fetch_sub(1) == 1;
  // The last caller that drove has left: the engine's thread must not sleep its pause out.
  if (last && !over) unpark();
  return over;
}

void Engine::inspect(const std::function<void(const Role&)>& look) {
  Role role(driving_);
  while (!role.take()) ::sched_yield();  // a round lasts a few slices at most
  look(role);
  give_back(role);
}

void Engine::run() {
  use_all_bound_cpus();
  Role role(driving_);
  unsigned seen = helps_.load();
  while (!stopping_.load()) {
    const unsigned before = std::exchange(seen, helps_.load());
    if (helpers_.load() > 0 || (seen != before && !is_left_alone())) {
      park();
      continue;
    }
    bool more = false;
    if (role.take()) {
      more = drive(role);
      give_back(role);
    }
    if (!more) sleep();
  }
}

void Engine::park() {
  Lock lock(park_mutex_);
  unpark_.wait_for(lock.native(), kParkTime,
                   [this] { return is_left_alone() || stopping_.load(); });
}

void Engine::unpark() noexcept {
  const Lock lock(park_mutex_);
  unpark_.notify_one();
}

void Engine::sleep() {
  const Clock::rep timer = next_timer_.load();
  sleeps_until_.store(timer);
  sleeping_.store(true);
  if (!has_requests_.load() && !stopping_.load() && next_timer_.load() >= timer) {
    pollfd fds[2] = {{links_.fd(), POLLIN, 0}, {event_.get(), POLLIN, 0}};
    ::poll(fds, 2, Deadline::at(Clock::time_point(Clock::duration(timer))).poll_timeout());
  }
  sleeping_.store(false);
  eventfd_t count = 0;
  ::eventfd_read(event_.get(), &count);
}

void Engine::wake() noexcept {
  ::eventfd_write(event_.get(), 1);
}

}  // namespace dl::collectives::tcp
