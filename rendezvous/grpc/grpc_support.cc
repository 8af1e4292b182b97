#include "rendezvous/grpc/grpc_support.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

// Not a public header of Abseil, so a version may lack it.
#if __has_include(<absl/base/internal/cycleclock.h>)
#include <absl/base/internal/cycleclock.h>
#define DL_HAS_CYCLE_CLOCK 1
#else
#define DL_HAS_CYCLE_CLOCK 0
#endif

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/terminate.h"

namespace dl::rendezvous {

namespace {

using namespace std::chrono_literals;

// The error of the last pthread_create() that failed in gRPC; 0 if all threads were made.
std::atomic<int> thread_error{0};

}  // namespace

// The linker puts these for pthread_create() in what it links statically (--wrap), which gRPC is in
// Debian. A thread that a shared gRPC does not get is not seen here.
extern "C" int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*run)(void*), void* argument);
extern "C" int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*run)(void*), void* argument) {
  const int error = __real_pthread_create(thread, attributes, run, argument);
  if (error != 0) thread_error = error;
  return error;
}

namespace {

constexpr auto kShutdownTime = 5s;
constexpr auto kTimersTime = 10s;

// One for the process; never destroyed, because a thread that was left behind may still use it.
struct Library {
  Mutex mutex;
  std::condition_variable changed;
  int users DL_GUARDED_BY(mutex) = 0;
  bool is_ending DL_GUARDED_BY(mutex) = false;
  std::vector<std::shared_ptr<void>> kept DL_GUARDED_BY(mutex);
};
Library& library() {
  static Library* const only = new Library;
  return *only;
}

[[noreturn]] void throw_no_thread(int error) {
  throw_error(ErrorKind::kIo, "store: gRPC cannot start the threads that it needs: {}",
              spawn_error_text(error));
}

void check_threads() {
  if (thread_error != 0) throw_no_thread(thread_error);
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::gpr_set_log_function([](gpr_log_func_args* line) { log::debug("grpc: {}", line->message); });
  });
}

void require_threads() {
  constexpr std::size_t kOfAClient = 8;  // a service has a few more
  std::vector<std::thread> threads;
  threads.reserve(kOfAClient);
  Mutex gate;
  int error = 0;
  {
    const Lock closed(gate);  // all threads exist at the same time
    try {
      while (threads.size() < kOfAClient) {
        threads.emplace_back([&gate] { const Lock passed(gate); });
      }
    } catch (const std::system_error& refused) {
      error = refused.code().value();
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
  }
  const std::size_t given = threads.size();
  for (std::thread& thread : threads) thread.join();
  DL_CHECK(error == 0, kIo, "store: {} threads are needed, and the system gives {}: {}", kOfAClient,
           given, spawn_error_text(error));
}

// Throws unless gRPC's timer thread exists: only then does an alarm ring.
void require_timers() {
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  alarm.Set(&queue, std::chrono::system_clock::now(), nullptr);
  void* tag = nullptr;
  bool ok = false;
  const auto limit = std::chrono::system_clock::now() + kTimersTime;
  const bool rang = queue.AsyncNext(&tag, &ok, limit) == grpc::CompletionQueue::GOT_EVENT;
  alarm.Cancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (!rang) throw_no_thread(EAGAIN);
}

// When a thread first waits for one of gRPC's mutexes, Abseil measures the processor's frequency,
// which takes 3 ms or longer and blocks all waiting threads. Measure it on a thread at the start.
void measure_frequency() {
#if DL_HAS_CYCLE_CLOCK
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      std::thread([] { absl::base_internal::CycleClock::Frequency(); }).detach();
    } catch (const std::exception&) {
      // Abseil will measure it later.
    }
  });
#endif
}

void shut_down(Library& grpc) {
  std::vector<std::shared_ptr<void>> kept;
  {
    const Lock lock(grpc.mutex);
    kept.swap(grpc.kept);
  }
  kept.clear();
  ::grpc_shutdown();
  const Lock lock(grpc.mutex);
  grpc.is_ending = false;
  grpc.changed.notify_all();
}

}  // namespace

GrpcUse::GrpcUse() {
  quiet_grpc();
  // gRPC's threads may run out of memory.
  end_with_text_when_uncaught();
  end_with_text_without_address_space();
  Library& grpc = library();
  Lock lock(grpc.mutex);
  if (!grpc.changed.wait_for(lock.native(), kShutdownTime,
                             [&]() DL_REQUIRES(grpc.mutex) { return !grpc.is_ending; })) {
    throw_no_thread(EAGAIN);  // the library is still shutting down
  }
  if (grpc.users == 0) {
    require_threads();
    ::grpc_init();
    check_threads();
    measure_frequency();
    // If it throws, gRPC stays initialised, because its shutdown would wait for the missing thread.
    require_timers();
    check_threads();
  }
  ++grpc.users;
}

void GrpcUse::keep(std::shared_ptr<void> channel) {
  const Lock lock(library().mutex);
  library().kept.push_back(std::move(channel));
}

GrpcUse::~GrpcUse() {
  Library& grpc = library();
  Lock lock(grpc.mutex);
  if (--grpc.users > 0) return;
  grpc.is_ending = true;
  try {
    std::thread([&grpc] { shut_down(grpc); }).detach();
  } catch (const std::exception&) {
    grpc.is_ending = false;  // gRPC stays up, which does no harm
    return;
  }
  if (grpc.changed.wait_for(lock.native(), kShutdownTime,
                            [&]() DL_REQUIRES(grpc.mutex) { return !grpc.is_ending; }))
    return;
  log::warning(
      "store: gRPC waits for a thread that could not start, so its shutdown is not finished: {}",
      spawn_error_text(EAGAIN));
}

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return arguments;
}

grpc::Status to_status(const std::exception& error) {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    if (ours->kind() == ErrorKind::kInvalidArgument) code = grpc::StatusCode::INVALID_ARGUMENT;
    if (ours->kind() == ErrorKind::kAborted) code = grpc::StatusCode::ABORTED;
  }
  return {code, error.what()};
}

ErrorKind kind_of(const grpc::Status& status) noexcept {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return ErrorKind::kInvalidArgument;
    case grpc::StatusCode::ABORTED:
      return ErrorKind::kAborted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorKind::kTimeout;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
      return ErrorKind::kConnection;
    default:
      return ErrorKind::kInternal;
  }
}

}  // namespace dl::rendezvous
