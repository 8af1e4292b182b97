#include "collectives/at_exit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/process_stat.h"

namespace dl::collectives {
namespace {

// Constant-initialised, and never destroyed.
std::mutex at_exit_mutex;
std::vector<AtExit*>* at_exit_objects = nullptr;
const ForkMark* at_exit_process = nullptr;
constinit std::atomic<std::uint64_t> at_exit_count{0};
bool is_registered = false;  // leave_all() will run
constinit std::atomic<bool> process_exits{false};
constinit std::atomic<bool> has_said_goodbye{false};
constinit std::atomic<pid_t> exiting_thread{0};
constinit thread_local bool is_exiting_thread = false;
constinit thread_local Leaving* leaving_of_thread = nullptr;

constexpr std::chrono::seconds kExitStands{10};
constexpr std::chrono::seconds kLookEvery{1};

ProcessStat stat_of_exiting_thread() noexcept {
  try {
    return read_stat("/proc/self/task/" + std::to_string(exiting_thread.load()));
  } catch (const std::exception&) {
    return {};  // no memory: it counts as one that moves
  }
}

}  // namespace

void leave_all() noexcept {
  if (at_exit_process == nullptr || at_exit_process->is_in_child()) return;
  is_exiting_thread = true;
  exiting_thread.store(::gettid());
  process_exits.store(true);
  const std::lock_guard lock(at_exit_mutex);
  is_registered = false;
  while (!at_exit_objects->empty()) {
    const AtExit* const newest = at_exit_objects->back();
    at_exit_objects->pop_back();
    newest->is_leaving_.store(true);
    newest->run();
    newest->has_left_.store(true);
  }
  has_said_goodbye.store(true);
}

void stay_if_exiting() noexcept {
  if (!process_exits.load() || is_exiting_thread || at_exit_process->is_in_child()) return;
  ProcessStat before;
  for (auto asleep = kLookEvery * 0; asleep < kExitStands;) {
    std::this_thread::sleep_for(kLookEvery);
    ProcessStat now = stat_of_exiting_thread();
    const bool stands = has_said_goodbye.load() && now.state == 'S' && now.cpu_s == before.cpu_s;
    asleep = stands ? asleep + kLookEvery : kLookEvery * 0;
    before = std::move(now);
  }
}

void AtExit::keep(Ref<RefCounted> object) noexcept {
  // Reachable until the end, so that no leak is reported.
  static std::vector<Ref<RefCounted>>* kept = nullptr;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (kept == nullptr) kept = new std::vector<Ref<RefCounted>>();
  kept->push_back(std::move(object));
}

AtExit::AtExit(std::function<void()> leave)
    : leave_(std::move(leave)), number_(at_exit_count.fetch_add(1)) {
  stay_if_exiting();
  if (leaving_of_thread != nullptr) leaving_of_thread->numbers_.push_back(number_);
  const std::lock_guard lock(at_exit_mutex);
  if (at_exit_objects == nullptr || at_exit_process->is_in_child()) {
    // Objects that a forked child has inherited belong to its parent, and so does its exit().
    at_exit_objects = new std::vector<AtExit*>();
    process_exits.store(false);
    has_said_goodbye.store(false);
    is_exiting_thread = false;
    at_exit_process = new ForkMark();
  }
  // During exit(), too: a destructor may make an object after leave_all() has run.
  if (!is_registered) is_registered = std::atexit([] { leave_all(); }) == 0;
  at_exit_objects->push_back(this);
}

void AtExit::run() const noexcept {
  try {
    leave_();
  } catch (const std::exception& error) {
    log::warning("leaving the other ranks: {}", error.what());
  } catch (...) {
    log::warning("leaving the other ranks: an exception that is no std::exception");
  }
}

Leaving::Recording::Recording(Leaving& leaving) noexcept {
  leaving_of_thread = &leaving;
}

Leaving::Recording::~Recording() {
  leaving_of_thread = nullptr;
}

void Leaving::leave() const noexcept {
  if (at_exit_process == nullptr || at_exit_process->is_in_child()) return;
  const std::lock_guard lock(at_exit_mutex);
  for (std::size_t i = at_exit_objects->size(); i > 0; --i) {
    const AtExit* const object = (*at_exit_objects)[i - 1];
    if (std::ranges::find(numbers_, object->number_) != numbers_.end()) object->run();
  }
}

AtExit::~AtExit() {
  if (at_exit_process->is_in_child()) return;
  const std::lock_guard lock(at_exit_mutex);
  std::erase(*at_exit_objects, this);
}

}  // namespace dl::collectives
