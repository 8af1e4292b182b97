// Kernels' threads. Those of a block take turns on the stream's own thread, each on a stack of its
// own as soon as one of them waits for the others.
//
// A thread that takes many more steps than all others of its block is a reduction by one thread.
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/host_device/kernel.h"
#include "tests/host_device/runtime.h"

namespace dl::host_device {

constinit thread_local Position position{};

namespace {

// Of the running thread: basic blocks, as -fsanitize-coverage=trace-pc counts them.
constinit thread_local std::uint64_t steps = 0;
constexpr std::uint64_t kMostSteps = 800;  // that a thread may take more than the next

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr unsigned kMostThreads = 1024;

unsigned long seed() {
  static const unsigned long value = [] {
    const char* const given = std::getenv("DLRUN_TEST_ORDER");
    return given == nullptr ? 1 : std::strtoul(given, nullptr, 10);
  }();
  return value;
}

// SplitMix64, as std::shuffle() takes it: a stream's orders follow from the seed.
struct Random {
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    result_type z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  result_type state = seed();
};
thread_local Random random_numbers;

template <typename T>
void shuffle(std::vector<T>& items) {
  // The bias of one number in 2^32 does not matter here, and divisions would take long.
  for (std::size_t left = items.size(); left > 1; --left) {
    const std::uint64_t at = (random_numbers() >> 32) * left >> 32;
    std::swap(items[left - 1], items[at]);
  }
}

void number(std::vector<unsigned>& items, std::size_t count) {
  items.resize(count);
  std::iota(items.begin(), items.end(), 0U);
}

// The launch that the thread runs; of a thread that has run none, line() is 0.
thread_local std::source_location launched;

std::string text_of(const dim3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

class Block {
 public:
  void run(dim3 threads, const std::function<void()>& thread) {
    thread_ = &thread;
    threads_ = threads;
    count_ = threads.x * threads.y * threads.z;
    if (order_.size() != count_) number(order_, count_);
    shuffle(order_);
    shared_.clear();
    next_ = ended_ = 0;
    most_ = second_ = 0;
    while (next_ < count_) resume(fresh_fiber());
    while (ended_ < count_) {
      // All others wait: those that ended would never come.
      if (ended_ != 0) {
        fail(running_kernel() + " has a barrier that some threads of the block do not reach");
      }
      resumed_.clear();
      resumed_.swap(waiting_);
      shuffle(resumed_);
      for (Fiber* const fiber : resumed_) {
        position.thread = fiber->thread;
        steps = fiber->steps;
        resume(fiber);
      }
    }
    if (most_ > 2 * second_ && most_ - second_ > kMostSteps) {
      position.thread = busiest_;
      fail(running_thread() + " takes " + std::to_string(most_) +
           " steps, and the next of its block " + std::to_string(second_) +
           ": let the threads share the work");
    }
  }

  // Called on a fiber: back when all threads of the block have called.
  void wait() {
    Fiber* const self = running_;
    self->thread = position.thread;
    self->steps = steps;
    waiting_.push_back(self);
    if (::_setjmp(self->place) == 0) ::_longjmp(scheduler_, 1);
  }

  void begin_shared(void* variable, std::size_t bytes) {
    if (std::ranges::find(shared_, variable) != shared_.end()) return;
    shared_.push_back(variable);
    fill_with_pattern(variable, bytes);
  }

 private:
  // A context starts it; from then on jumps, which make no system call, unlike contexts.
  struct Fiber {
    ucontext_t context;
    bool started = false;
    jmp_buf place;
    std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
    dim3 thread;
    std::uint64_t steps = 0;
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
      const unsigned number = order_[next_++];
      position.thread = dim3(number % threads_.x, number / threads_.x % threads_.y,
                             number / (threads_.x * threads_.y));
      steps = 0;
      (*thread_)();
      ++ended_;
      if (steps <= most_) {
        second_ = std::max(second_, steps);
        continue;
      }
      second_ = std::exchange(most_, steps);
      busiest_ = position.thread;
    }
    idle_.push_back(self);
    ::_longjmp(scheduler_, 1);
  }

  const std::function<void()>* thread_ = nullptr;
  dim3 threads_;
  unsigned count_ = 0;
  unsigned next_ = 0;  // the first in the order that has not begun
  unsigned ended_ = 0;
  std::uint64_t most_ = 0;    // steps of the busiest thread
  std::uint64_t second_ = 0;  // and of the next
  dim3 busiest_;
  std::vector<unsigned> order_;  // of the threads
  std::vector<void*> shared_;    // variables that a thread of the block has come to
  Fiber* running_ = nullptr;
  jmp_buf scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Fiber*> waiting_;
  std::vector<Fiber*> resumed_;
};

thread_local Block block;

void Block::enter() {
  block.run_threads();
}

}  // namespace

void wait_for_block() {
  block.wait();
}

void begin_shared(void* variable, std::size_t bytes) {
  block.begin_shared(variable, bytes);
}

void run_grid(dim3 grid, dim3 threads, const std::function<void()>& thread,
              const std::source_location& launch) {
  launched = launch;
  position.grid = grid;
  position.threads = threads;
  thread_local std::vector<unsigned> order;
  number(order, std::size_t{grid.x} * grid.y * grid.z);
  shuffle(order);
  for (const unsigned number : order) {
    position.block = dim3(number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y);
    block.run(threads, thread);
  }
  check_memory([] { return "behind " + running_kernel(); });
}

extern "C" void __sanitizer_cov_trace_pc() {
  ++steps;
}

std::string running_kernel() {
  if (launched.line() == 0) return "the host, a copy or a library";
  return std::string("the kernel of ") + launched.file_name() + ":" +
         std::to_string(launched.line()) + " (" + launched.function_name() + ")";
}

std::string running_thread() {
  if (launched.line() == 0) return running_kernel();
  return running_kernel() + ", block " + text_of(position.block) + ", thread " +
         text_of(position.thread) + ",";
}

void fail(const std::string& what) {
  std::fprintf(stderr, "host device: %s (DLRUN_TEST_ORDER=%lu)\n", what.c_str(), seed());
  std::abort();
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
