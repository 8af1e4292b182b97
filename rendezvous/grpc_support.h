// What the service and its clients share in dealing with gRPC. Included by .cc files only.
#pragma once

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <exception>
#include <string_view>

#include "core/base/error.h"
#include "rendezvous/store_checks.h"

namespace dl::rendezvous {

inline constexpr std::string_view kStorePurpose = "store";
inline constexpr std::string_view kMembershipPurpose = "membership";

// A value of the greatest length, its key and Protobuf's own bytes.
inline constexpr int kLongestMessage = static_cast<int>(kLongestValue) + (64 << 10);

// gRPC's own log lines become debug lines of ours. Once a process, before the first use of gRPC.
void quiet_grpc();

// Throws kIo where the system does not give this process the threads that gRPC starts: gRPC would
// not say so, and wait for them for ever.
void require_threads();

// Channels made from a descriptor: no proxy, no retries behind our back.
grpc::ChannelArguments channel_arguments();

// An Error as a status and back. Errors of kinds that the service does not throw become INTERNAL.
grpc::Status to_status(const std::exception& error);
ErrorKind kind_of(const grpc::Status& status) noexcept;

// gRPC hands an object from thread to thread by means that ThreadSanitizer does not see, as the
// library is not instrumented. The side that gives ends with hand_over(), a reaction that gRPC
// calls begins with take_over(). Nothing in other builds.
#if defined(__SANITIZE_THREAD__)
inline void hand_over(void* object) {
  ::__tsan_release(object);
}
inline void take_over(void* object) {
  ::__tsan_acquire(object);
}
#else
inline void hand_over(void*) {}
inline void take_over(void*) {}
#endif

}  // namespace dl::rendezvous
