#include "collectives/process/at_exit.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/process/exit_watch.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives {
namespace {

// Constant-initialised, and never destroyed.
Mutex at_exit_mutex;
std::vector<AtExit*>* at_exit_objects DL_GUARDED_BY(at_exit_mutex) = nullptr;
const ForkMark* at_exit_process = nullptr;
constinit std::atomic<std::uint64_t> at_exit_count{0};
bool is_registered DL_GUARDED_BY(at_exit_mutex) = false;  // leave_all() will run
constinit ExitWatch process_exit;
constinit thread_local ExitScope* scope_of_thread = nullptr;

}  // namespace

void leave_all() noexcept {
  if (at_exit_process == nullptr || at_exit_process->is_in_child()) return;
  process_exit.begin();
  const Lock lock(at_exit_mutex);
  is_registered = false;
  while (!at_exit_objects->empty()) {
    const AtExit* const newest = at_exit_objects->back();
    at_exit_objects->pop_back();
    newest->is_leaving_.store(true);
    newest->run();
    newest->has_left_.store(true);
  }
  process_exit.end();
}

void stay_if_exiting() noexcept {
  if (process_exit.has_begun() && !at_exit_process->is_in_child()) process_exit.stay();
}

bool AtExit::keeps(std::initializer_list<const RefCounted*> objects, bool is_in_child) const {
  if (is_in_child) {
    // Take no mutex: in the child, a lock that another thread held is never released.
    for (const RefCounted* const object : objects) object->retain();
    return true;
  }
  if (!has_left()) return false;
  // Reachable until the end, so that no leak is reported.
  static Mutex mutex;
  static std::vector<Ref<const RefCounted>>* kept DL_GUARDED_BY(mutex) = nullptr;
  const Lock lock(mutex);
  if (kept == nullptr) kept = new std::vector<Ref<const RefCounted>>();
  for (const RefCounted* const object : objects) kept->emplace_back(object);
  return true;
}

AtExit::AtExit(std::function<void()> leave)
    : leave_(std::move(leave)), number_(at_exit_count.fetch_add(1)) {
  stay_if_exiting();
  if (scope_of_thread != nullptr) scope_of_thread->numbers_.push_back(number_);
  const Lock lock(at_exit_mutex);
  if (at_exit_objects == nullptr || at_exit_process->is_in_child()) {
    // In a forked child, begin anew: the inherited objects and exit() handlers belong to the
    // parent.
    at_exit_objects = new std::vector<AtExit*>();
    process_exit.reset();
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

ExitScope::Recording::Recording(ExitScope& scope) noexcept {
  scope_of_thread = &scope;
}

ExitScope::Recording::~Recording() {
  scope_of_thread = nullptr;
}

void ExitScope::leave() const noexcept {
  if (at_exit_process == nullptr || at_exit_process->is_in_child()) return;
  const Lock lock(at_exit_mutex);
  for (std::size_t i = at_exit_objects->size(); i > 0; --i) {
    const AtExit* const object = (*at_exit_objects)[i - 1];
    if (std::ranges::find(numbers_, object->number_) != numbers_.end()) object->run();
  }
}

AtExit::~AtExit() {
  if (at_exit_process->is_in_child()) return;
  const Lock lock(at_exit_mutex);
  std::erase(*at_exit_objects, this);
}

}  // namespace dl::collectives
