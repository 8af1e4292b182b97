// DeviceGroup: one group for memory of the CPU and of GPUs.
//
// Calls whose stream is the CPU's go to the CPU group that it stands in front of. The first
// collective with a CUDA stream makes what CUDA memory goes over: NCCL, or, where a rank has none
// or two ranks share a GPU, pinned memory and the CPU group, which is said once. A program that
// never calls with a CUDA stream loads nothing of CUDA. An error of either half is the group's.
// Thread-safety: process_group.h.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "collectives/nccl/notices.h"
#include "collectives/process_group.h"
#include "collectives/record/recorder.h"

namespace dl::collectives {

// destroy_process_group() has ended the default group: a program that still holds it may not call
// it any more. Groups that it was split into are on their own.
struct Ended final : RefCounted {
  std::atomic<bool> is_so{false};
};

struct DeviceGroupOptions {
  std::chrono::nanoseconds timeout{};  // of an operation, and of NCCL's meeting
  bool must_be_nccl = false;           // else kConnection, where pinned memory would do
  Ref<nccl::Notices> notices{};
  std::shared_ptr<record::Recorder> recorder{};
  Ref<Ended> ended{};
};

// Opens what NCCL needs. Throws kNotImplemented, kNotFound or kMismatch, in one sentence, where
// this process has no GPU or no NCCL.
void require_nccl();

// What CUDA memory goes over; collective over `host`. `device`: number of this rank's GPU.
using MakeDevicePart = std::function<Ref<ProcessGroup>(const Ref<ProcessGroup>& host, int device,
                                                       const DeviceGroupOptions& options)>;
Ref<ProcessGroup> make_device_part(const Ref<ProcessGroup>& host, int device,
                                   const DeviceGroupOptions& options);

Ref<ProcessGroup> make_device_group(Ref<ProcessGroup> host, const DeviceGroupOptions& options,
                                    MakeDevicePart make = make_device_part);

}  // namespace dl::collectives
