#include "core/base/system/process/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "core/base/mutex.h"

namespace dl {

std::atomic<unsigned> fork_detail::depth{0};

namespace {

// All constant-initialised. fork() holds the mutex, so that no other thread is in the middle of a
// change when the child is made.
Mutex parent_only_mutex;
std::vector<int>* parent_only DL_GUARDED_BY(parent_only_mutex)
    DL_PT_GUARDED_BY(parent_only_mutex) = nullptr;
int null_device DL_GUARDED_BY(parent_only_mutex) = -1;

void before_fork() DL_NO_THREAD_SAFETY_ANALYSIS {
  parent_only_mutex.lock();
}

void after_fork_in_parent() DL_NO_THREAD_SAFETY_ANALYSIS {
  parent_only_mutex.unlock();
}

// Must not wait or allocate: locks that other threads held are never released in the child.
void after_fork_in_child() DL_NO_THREAD_SAFETY_ANALYSIS {
  fork_detail::depth.fetch_add(1, std::memory_order_relaxed);
  if (parent_only != nullptr) {
    for (const int fd : *parent_only) ::dup3(null_device, fd, O_CLOEXEC);
    // Only descriptors that the child opens itself belong in the child's list.
    parent_only->clear();
  }
  parent_only_mutex.unlock();
}

void install_handlers() {
  static const int failed =
      ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  if (failed != 0) throw_errno(failed, "pthread_atfork");
}

}  // namespace

ForkMark::ForkMark() : made_at_(0) {
  install_handlers();
  made_at_ = fork_detail::depth.load(std::memory_order_relaxed);
}

void ParentOnlyFds::add(int fd) {
  if (fd < 0) return;
  install_handlers();
  fds_.push_back(fd);
  const Lock lock(parent_only_mutex);
  if (null_device < 0) null_device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_device < 0) throw_errno(errno, "open /dev/null");
  if (parent_only == nullptr) parent_only = new std::vector<int>();
  parent_only->push_back(fd);
}

void ParentOnlyFds::clear() noexcept {
  const Lock lock(parent_only_mutex);
  for (const int fd : fds_) {
    const auto known = std::find(parent_only->begin(), parent_only->end(), fd);
    if (known == parent_only->end()) continue;
    *known = parent_only->back();
    parent_only->pop_back();
  }
  fds_.clear();
}

}  // namespace dl
