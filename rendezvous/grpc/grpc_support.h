// gRPC helpers for the service and its clients. Included by .cc files only.
#pragma once

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <exception>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/sanitizers.h"
#include "rendezvous/stores/store_checks.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace dl::rendezvous {

inline constexpr std::string_view kStorePurpose = "store";
inline constexpr std::string_view kMembershipPurpose = "membership";

// A value of maximum length, its key, and the bytes that Protobuf adds.
inline constexpr int kLongestMessage = static_cast<int>(kLongestValue) + (64 << 10);

// Keeps gRPC's library initialised; the first member of a class that uses gRPC. gRPC's log lines
// become dlrun's debug lines.
//
// If the system refuses gRPC a thread, gRPC neither reports it nor works without it: calls have no
// deadlines any more or never return, and destroying its last object waits for that thread for
// ever. So the first object of this class tests that threads can be made, that gRPC got all it
// asked for, and that its timers work. The last one shuts the library down on a thread of its own,
// which can be left behind. If one of gRPC's threads runs out of memory, the process ends with a
// text that names the limit.
class GrpcUse {
 public:
  // Throws kIo and names the limit if the system does not give this process gRPC's threads.
  GrpcUse();
  ~GrpcUse();
  // Keeps the channel until the library is shut down: destroying the last channel may also wait for
  // a thread.
  void keep(std::shared_ptr<void> channel);
  GrpcUse(const GrpcUse&) = delete;
  GrpcUse& operator=(const GrpcUse&) = delete;
};

// For channels made from a descriptor: no proxy, no hidden retries.
grpc::ChannelArguments channel_arguments();

// Convert an Error to a status and back. Kinds that the service does not throw become INTERNAL.
grpc::Status to_status(const std::exception& error);
ErrorKind kind_of(const grpc::Status& status) noexcept;

// gRPC passes objects between threads in ways that ThreadSanitizer does not see, because the
// library is not instrumented. The thread that gives an object to gRPC calls hand_over() last. A
// reaction that gRPC calls begins with take_over(). No-ops in other builds.
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
