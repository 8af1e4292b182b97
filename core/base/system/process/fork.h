// Protection of a forked child from its parent's threads and connections.
//
// A child of fork() has its parent's memory and none of its threads. An object with a thread, a
// connection or shared memory belongs to the process that made it: it keeps a ForkMark and checks
// it before it acts. ParentOnlyFds lists the descriptors by which peers notice the parent's end. In
// a child each becomes /dev/null: the child may close it without harm, and peers see the parent's
// end at once although the child lives on.
//
// A child of vfork() or posix_spawn() runs none of our code before exec, which closes descriptors
// that are close-on-exec. clone() and _Fork() run no handlers: their children are taken for the
// parent.
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
  // True if the process that made the mark is this one's parent or an earlier ancestor. Costs one
  // load.
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

  // Ignores -1. Throws kIo if /dev/null cannot be opened.
  void add(int fd);
  // Call it before closing any of them, since another file may get the number.
  void clear() noexcept;

 private:
  std::vector<int> fds_;
};

}  // namespace dl
