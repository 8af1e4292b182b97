#include "collectives/nccl/library/communicator.h"

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <thread>

#include "collectives/call/descriptor.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/thread.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

// Time for NCCL to destroy a communicator. At the end of a program all ranks leave at about the
// same time, so more is not needed.
constexpr auto kLeaveTime = 500ms;

void end_this_process(const std::string& text) {
  log::write(log::Level::kError, text);
  std::_Exit(1);  // no destructor: they would wait for the GPU
}

}  // namespace

int Communicator::connect(int size, const UniqueId& id, int rank) {
  Comm comm = nullptr;
  const int state = options_.nccl.init(&comm, size, &id, rank, options_.device);
  comm_ = comm;
  return state;
}

int Communicator::error() const noexcept {
  int state = kSuccess;
  const int code = options_.nccl.async_error(get(), &state);
  return code != kSuccess ? code : state;
}

std::string Communicator::said(int code) const {
  return fmt::format("NCCL says: {}", text_of(options_.nccl, code));
}

// A call of NCCL restores the thread's current device afterwards. In a thread without one this
// would be GPU 0, which may belong to another rank.
bool Communicator::are_through(std::vector<std::function<void()>> ends,
                               std::chrono::nanoseconds time) {
  struct Tasks {
    Mutex mutex;
    std::condition_variable changed;
    std::size_t left DL_GUARDED_BY(mutex) = 0;
  };
  // The last of the caller and the threads frees it.
  const auto tasks = std::make_shared<Tasks>();
  {
    const Lock lock(tasks->mutex);
    tasks->left = ends.size();
  }
  try {
    for (std::function<void()>& end : ends) {
      make_thread(fmt::format("group '{}'", options_.group), [tasks, end = std::move(end),
                                                              &cuda = options_.cuda,
                                                              device = options_.device] {
        cuda.adopt_device(device);
        end();
        const Lock lock(tasks->mutex);
        --tasks->left;
        tasks->changed.notify_all();
      }).detach();
    }
  } catch (const Error& error) {
    log::warning("{}", error.what());
    return false;
  }
  Lock lock(tasks->mutex);
  return tasks->changed.wait_for(lock.native(), time,
                                 [&]() DL_REQUIRES(tasks->mutex) { return tasks->left == 0; });
}

void Communicator::end_process(const std::string& why) noexcept {
  const std::string text = fmt::format(
      "{}; NCCL has not given the communicator of group '{}' back after {} s, and this process "
      "ends, as the GPU may still write into its memory",
      why, options_.group, seconds_text(options_.abort_time));
  options_.end_process ? options_.end_process(text) : end_this_process(text);
}

void Communicator::abort(const std::string& why, std::function<void()> beside) noexcept {
  // A launch under way sees that the group is broken and does not call NCCL; later launches do not
  // reach NCCL. Do not keep the lock: a thread that launches a graph may wait for it, and
  // destroying that graph waits for that thread.
  const Deadline until = Deadline::after(options_.abort_time);
  while (!starting.try_lock()) {
    if (until.has_passed()) end_process(why);
    std::this_thread::sleep_for(1ms);
  }
  starting.unlock();
  const Comm comm = comm_.exchange(nullptr);
  if (comm == nullptr) return;
  std::vector<std::function<void()>> ends{[&nccl = options_.nccl, comm] { nccl.abort(comm); }};
  if (beside) ends.push_back(std::move(beside));
  if (!are_through(std::move(ends), options_.abort_time)) end_process(why);
}

void Communicator::leave() noexcept {
  const Deadline until = Deadline::after(options_.abort_time);
  int state = options_.nccl.finalize(get());
  while (state == kInProgress && !until.has_passed()) {
    std::this_thread::sleep_for(1ms);
    state = error();
  }
  if (state != kSuccess) return abort("leaving");
  const Comm comm = comm_.exchange(nullptr);
  if (!are_through({[&nccl = options_.nccl, comm] { nccl.destroy(comm); }}, kLeaveTime)) {
    // NCCL's proxies serve the other ranks of this host until these leave. This rank's work is
    // done.
    log::debug("group '{}': NCCL keeps its memory until the other ranks have left, too",
               options_.group);
  }
}

}  // namespace dl::collectives::nccl
