// What the service and its clients share in dealing with gRPC. Included by .cc files only.
#pragma once

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

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

// Channels made from a descriptor: no proxy, no retries behind our back.
grpc::ChannelArguments channel_arguments();

// An Error as a status and back. Errors of kinds that the service does not throw become INTERNAL.
grpc::Status to_status(const std::exception& error);
ErrorKind kind_of(const grpc::Status& status) noexcept;

}  // namespace dl::rendezvous
