#include "rendezvous/grpc_support.h"

#include <grpc/support/log.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/log.h"

namespace dl::rendezvous {

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
  std::mutex gate;
  int error = 0;
  {
    const std::lock_guard closed(gate);  // all are there at once
    try {
      while (threads.size() < kOfAClient) {
        threads.emplace_back([&gate] { const std::lock_guard passed(gate); });
      }
    } catch (const std::system_error& refused) {
      error = refused.code().value();
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
  }
  const std::size_t given = threads.size();
  for (std::thread& thread : threads) thread.join();
  DL_CHECK(error == 0, kIo,
           "store: {} threads are needed, and the system gives {}: {}; are processes (ulimit -u, "
           "pids.max) or memory (ulimit -v) limited?",
           kOfAClient, given, std::strerror(error));
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
