#include "collectives/at_exit.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/fork.h"
#include "core/base/log.h"

namespace dl::collectives {
namespace {

// Constant-initialised; nothing destroys it.
std::mutex at_exit_mutex;
std::vector<AtExit*>* at_exit_objects = nullptr;
const ForkMark* at_exit_process = nullptr;

}  // namespace

void leave_all() noexcept {
  if (at_exit_process == nullptr || at_exit_process->is_in_child()) return;
  const std::lock_guard lock(at_exit_mutex);
  while (!at_exit_objects->empty()) {
    const AtExit* const newest = at_exit_objects->back();
    at_exit_objects->pop_back();
    try {
      newest->leave_();
    } catch (const std::exception& error) {
      log::warning("leaving the other ranks: {}", error.what());
    }
  }
}

AtExit::AtExit(std::function<void()> leave) : leave_(std::move(leave)) {
  const std::lock_guard lock(at_exit_mutex);
  const bool is_first = at_exit_objects == nullptr;
  if (is_first || at_exit_process->is_in_child()) {
    // What a child has inherited is its parent's.
    at_exit_objects = new std::vector<AtExit*>();
    at_exit_process = new ForkMark();
  }
  if (is_first) std::atexit([] { leave_all(); });
  at_exit_objects->push_back(this);
}

AtExit::~AtExit() {
  if (at_exit_process->is_in_child()) return;
  const std::lock_guard lock(at_exit_mutex);
  std::erase(*at_exit_objects, this);
}

}  // namespace dl::collectives
