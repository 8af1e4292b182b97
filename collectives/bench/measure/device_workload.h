// CollectiveWorkload on a GPU. Two buffers on the device are filled once: the input, and wrong
// values. rewrite() copies them over the inputs and outputs. Results are compared on the host, to
// which they are copied through pinned memory.
//
// All sizes of a run share a DeviceRoom. One thread.
#pragma once

#include <vector>

#include "collectives/bench/machine/gpu.h"
#include "collectives/bench/measure/workload.h"
#include "collectives/bench/operation/bare_nccl.h"

namespace dl::collectives::bench {

struct DeviceRoom {
  // `bytes`: size of a slot. Without `checks` there is no memory for comparing results.
  DeviceRoom(const Gpu& gpu, std::size_t bytes, bool checks);
  ~DeviceRoom();
  DeviceRoom(const DeviceRoom&) = delete;
  DeviceRoom& operator=(const DeviceRoom&) = delete;

  const Gpu& gpu;
  Gpu::Memory original;  // the input
  Gpu::Memory spoiled;   // wrong values that fill an output before the operation
  Gpu::Memory pinned;
  void* begin;  // events
  void* end;
};

class DeviceWorkload final : public Workload {
 public:
  // `nccl`: null if the group is measured.
  DeviceWorkload(ProcessGroup& group, const Options& options, const Operation& operation,
                 const Case& what, const Shape& shape, Arena& inputs, Arena& outputs,
                 DeviceRoom& room, BareNccl* nccl = nullptr);

  void rewrite() override;
  void begin() override;
  Ref<Work> start(std::size_t index) override;
  void finish(std::span<const Ref<Work>> works) override;
  std::optional<double> device_us(std::span<const Ref<Work>> works) override;
  bool queues() const noexcept override { return true; }
  std::size_t wrong() override;

 private:
  void to_device(Gpu::Memory& to, const std::vector<std::byte>& from);

  ProcessGroup& group_;
  const Operation& operation_;
  DeviceRoom& room_;
  DType dtype_;
  std::size_t input_bytes_;
  std::vector<TimedCall> calls_;
  std::vector<std::byte> wanted_;
  std::size_t wanted_count_ = 0;
};

}  // namespace dl::collectives::bench
