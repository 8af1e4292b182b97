// What the service and its clients share in dealing with gRPC. Included by .cc files only.
#pragma once

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <exception>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "rendezvous/store_checks.h"

namespace dl::rendezvous {

inline constexpr std::string_view kStorePurpose = "store";
inline constexpr std::string_view kMembershipPurpose = "membership";

// A value of the greatest length, its key and Protobuf's own bytes.
inline constexpr int kLongestMessage = static_cast<int>(kLongestValue) + (64 << 10);

// gRPC's library, held up by whatever uses it: the first member of such a class. Its log lines
// become debug lines of ours.
//
// Where a thread that gRPC wants is refused, gRPC neither says so nor goes on without it: calls
// have no deadlines any more, and the end of its last object waits for that thread for ever. So the
// first user asks for the threads before, its timers are tried, and the library is shut down by a
// thread that can be left behind. A thread of gRPC's that has no memory ends the process with the
// limit's name.
class GrpcUse {
 public:
  // Throws kIo and names the limit if the system does not give this process gRPC's threads.
  GrpcUse();
  ~GrpcUse();
  // The last channel's end may wait for a thread, too: it comes with the library's.
  void keep(std::shared_ptr<void> channel);
  GrpcUse(const GrpcUse&) = delete;
  GrpcUse& operator=(const GrpcUse&) = delete;
};

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
