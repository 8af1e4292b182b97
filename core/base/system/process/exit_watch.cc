#include "core/base/system/process/exit_watch.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/system/process/process_stat.h"

namespace dl {
namespace {

constexpr std::chrono::seconds kExitStandsStill{10};
constexpr std::chrono::seconds kLookAtExitEvery{1};

// The watch whose stay() this thread has given up, because exit() seems to wait for it.
constinit thread_local const ExitWatch* gave_up = nullptr;

ProcessStat stat_of_thread(pid_t thread) noexcept {
  try {
    return read_stat("/proc/self/task/" + std::to_string(thread));
  } catch (const std::exception&) {
    return {};  // no memory: assume that the thread runs
  }
}

}  // namespace

void ExitWatch::begin() noexcept {
  exiting_thread_.store(::gettid());
}

void ExitWatch::reset() noexcept {
  exiting_thread_.store(0);
  is_done_.store(false);
  gave_up = nullptr;
}

bool ExitWatch::is_exiting_thread() const noexcept {
  return exiting_thread_.load() == ::gettid();
}

void ExitWatch::stay() const noexcept {
  if (is_exiting_thread() || gave_up == this) return;
  ProcessStat before;
  for (auto asleep = kLookAtExitEvery * 0; asleep < kExitStandsStill;) {
    std::this_thread::sleep_for(kLookAtExitEvery);
    ProcessStat now = stat_of_thread(exiting_thread_.load());
    const bool stands = is_done_.load() && now.state == 'S' && now.cpu_s == before.cpu_s;
    asleep = stands ? asleep + kLookAtExitEvery : kLookAtExitEvery * 0;
    before = std::move(now);
  }
  gave_up = this;
}

}  // namespace dl
