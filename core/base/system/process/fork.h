// What a forked child must not do and must not hold.
//
// A child of fork() has its parent's memory and none of its threads. An object with a thread, a
// connection or shared memory belongs to the process that made it: it keeps a ForkMark and asks it
// before it acts. The descriptors through which others notice the parent's end are listed in
// ParentOnlyFds: in a child each of them becomes /dev/null. The number stays taken, so closing it
// there is harmless, and peers see the parent's end at once although the child lives on.
//
// The child of vfork() or posix_spawn() runs nothing of ours before exec, which closes what is
// close-on-exec. clone() and _Fork() run no handlers: their children look like the parent.
//
// Thread-safety: any thread; one ParentOnlyFds is used by one thread at a time.
#pragma once

#include <atomic>
#include <vector>

namespace dl {

namespace fork_detail {
extern std::atomic<unsigned> depth;  // forks between the first process and this one
}

class ForkMark {
 public:
  // Marks this process. Throws kIo if there is no memory for the handlers.
  ForkMark();
  // This process is a child, or grandchild, of the one that made the mark. Costs one load.
  bool is_in_child() const noexcept {
    return made_at_ != fork_detail::depth.load(std::memory_order_relaxed);
  }

 private:
  unsigned made_at_;
};

class ParentOnlyFds {
 public:
  ParentOnlyFds() = default;
  ~ParentOnlyFds() { clear(); }
  ParentOnlyFds(const ParentOnlyFds&) = delete;
  ParentOnlyFds& operator=(const ParentOnlyFds&) = delete;

  // Harmless for -1. Throws kIo if /dev/null cannot be opened.
  void add(int fd);
  // To be called before any of them is closed, since another file may get its number.
  void clear() noexcept;

 private:
  std::vector<int> fds_;
};

}  // namespace dl
