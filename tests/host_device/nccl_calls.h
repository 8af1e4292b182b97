// The calls of a group of NCCL's: which are right, and what they do.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/host_device/nccl_world.h"

namespace dl::host_device::nccl {

enum class Kind : std::uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kSend,
  kReceive
};

struct Call {
  Kind kind{};
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t op = ncclSum;
  int root = 0;  // a message's peer
};

// What is wrong with a call, or with calls that run at a time; empty: nothing. NCCL itself accepts
// buffers that are not the device's or overlap in part, and then fails on the device, or gives an
// undefined result.
std::string fault_of(const Call& call, int size, int rank);
std::string fault_of(const std::vector<Call>& group, int size, int rank);
// Messages from a rank to itself that lack their other half.
bool lacks_half(const std::vector<Call>& group, int rank);

// Waits until the ranks have called together once. False: aborted.
bool connect(World& world, const std::vector<Call>& group);
// The collectives in their order, then the messages, all at a time. Ends early if aborted.
void run(World& world, const std::vector<Call>& group);

}  // namespace dl::host_device::nccl
