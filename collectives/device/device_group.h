// DeviceGroup: one group for CPU memory and GPU memory.
//
// Calls with a CPU stream go to the CPU group that it wraps. The first collective with a CUDA
// stream makes the group for CUDA memory. That is an NCCL group; if a rank has no NCCL or two ranks
// share a GPU, it is a StagedGroup, and rank 0 logs the reason once. A program that never calls
// with a CUDA stream loads no CUDA library. An error of either part is the group's error.
// Thread-safety: process_group.h.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "collectives/api/process_group.h"
#include "collectives/nccl/notices.h"
#include "collectives/record/recorder.h"

namespace dl::collectives {

// Set when destroy_process_group() has ended the default group. A program that still holds the
// group must not call it any more. Groups made by its split() are not affected.
struct Ended final : RefCounted {
  std::atomic<bool> is_so{false};
};

struct DeviceGroupOptions {
  std::chrono::nanoseconds timeout{};  // of an operation, and of connecting over NCCL
  bool must_be_nccl = false;           // true: throws kConnection instead of using pinned memory
  Ref<nccl::Notices> notices{};
  std::shared_ptr<record::Recorder> recorder{};
  Ref<Ended> ended{};
};

// Loads CUDA and NCCL. Throws kNotImplemented, kNotFound or kMismatch with one sentence if this
// process has no GPU or no NCCL.
void require_nccl();

// Makes the group for CUDA memory; collective over `host`. `device`: number of this rank's GPU.
using MakeDevicePart = std::function<Ref<ProcessGroup>(const Ref<ProcessGroup>& host, int device,
                                                       const DeviceGroupOptions& options)>;
Ref<ProcessGroup> make_device_part(const Ref<ProcessGroup>& host, int device,
                                   const DeviceGroupOptions& options);

Ref<ProcessGroup> make_device_group(Ref<ProcessGroup> host, const DeviceGroupOptions& options,
                                    MakeDevicePart make = make_device_part);

}  // namespace dl::collectives
