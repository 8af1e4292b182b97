// Kernels' threads. Those of a block take turns on the stream's own thread, each on a stack of its
// own as soon as one of them waits for the others.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/host_device/kernel.h"

namespace dl::host_device {

constinit thread_local Position position{};

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr unsigned kMostThreads = 1024;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "host device: %s\n", what);
  std::abort();
}

class Block {
 public:
  void run(dim3 threads, bool backwards, const std::function<void()>& thread) {
    thread_ = &thread;
    threads_ = threads;
    count_ = threads.x * threads.y * threads.z;
    backwards_ = backwards;
    next_ = ended_ = 0;
    while (next_ < count_) resume(fresh_fiber());
    while (ended_ < count_) {
      // All others wait: those that ended would never come.
      if (ended_ != 0) fail("a barrier that some threads of the block do not reach");
      std::vector<Fiber*> waiting;
      waiting.swap(waiting_);
      backwards_ = !backwards_;
      if (backwards_) std::reverse(waiting.begin(), waiting.end());
      for (Fiber* const fiber : waiting) {
        position.thread = fiber->thread;
        resume(fiber);
      }
    }
  }

  // Called on a fiber: back when all threads of the block have called.
  void wait() {
    Fiber* const self = running_;
    self->thread = position.thread;
    waiting_.push_back(self);
    if (::_setjmp(self->place) == 0) ::_longjmp(scheduler_, 1);
  }

 private:
  // A context starts it; from then on jumps, which make no system call, unlike contexts.
  struct Fiber {
    ucontext_t context;
    bool started = false;
    jmp_buf place;
    std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
    dim3 thread;
  };

  Fiber* fresh_fiber() {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      idle_.push_back(fibers_.back().get());
    }
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    ::getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    ::makecontext(&fiber->context, &enter, 0);
    fiber->started = false;
    return fiber;
  }

  void resume(Fiber* fiber) {
    running_ = fiber;
    if (::_setjmp(scheduler_) != 0) return;
    if (fiber->started) ::_longjmp(fiber->place, 1);
    fiber->started = true;
    ::setcontext(&fiber->context);
  }

  static void enter();

  // Thread after thread, for as long as none waits: then another fiber goes on with those that have
  // not begun.
  [[noreturn]] void run_threads() {
    Fiber* const self = running_;
    while (next_ < count_) {
      const unsigned number = backwards_ ? count_ - 1 - next_ : next_;
      ++next_;
      position.thread = dim3(number % threads_.x, number / threads_.x % threads_.y,
                             number / (threads_.x * threads_.y));
      (*thread_)();
      ++ended_;
    }
    idle_.push_back(self);
    ::_longjmp(scheduler_, 1);
  }

  const std::function<void()>* thread_ = nullptr;
  dim3 threads_;
  unsigned count_ = 0;
  unsigned next_ = 0;  // the first that has not begun
  unsigned ended_ = 0;
  bool backwards_ = false;
  Fiber* running_ = nullptr;
  jmp_buf scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Fiber*> waiting_;
};

thread_local Block block;

void Block::enter() {
  block.run_threads();
}

}  // namespace

void wait_for_block() {
  block.wait();
}

void run_grid(dim3 grid, dim3 threads, const std::function<void()>& thread) {
  position.grid = grid;
  position.threads = threads;
  bool backwards = false;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        position.block = dim3(x, y, z);
        block.run(threads, backwards, thread);
        backwards = !backwards;
      }
    }
  }
}

cudaError_t check_launch(dim3 grid, dim3 threads, std::size_t shared_bytes) {
  constexpr unsigned kMostBlocks = 65535;  // along y and z
  const bool present =
      grid.x > 0 && grid.y > 0 && grid.z > 0 && threads.x > 0 && threads.y > 0 && threads.z > 0;
  const bool fits = grid.x <= 0x7fffffffU && grid.y <= kMostBlocks && grid.z <= kMostBlocks &&
                    std::size_t{threads.x} * threads.y * threads.z <= kMostThreads &&
                    threads.z <= 64 && shared_bytes <= (std::size_t{48} << 10);
  return present && fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace dl::host_device
