// The same on a GPU. Inputs and what outputs are spoiled with are copied on the device from
// memory that was filled once; results come to the host through pinned memory to be compared.
//
// A DeviceRoom holds what all sizes of a run share. One thread.
#pragma once

#include <vector>

#include "collectives/bench/bare_nccl.h"
#include "collectives/bench/gpu.h"
#include "collectives/bench/workload.h"

namespace dl::collectives::bench {

struct DeviceRoom {
  // Of one slot's bytes; none to compare with where results are not checked.
  DeviceRoom(const Gpu& gpu, std::size_t bytes, bool checks);
  ~DeviceRoom();
  DeviceRoom(const DeviceRoom&) = delete;
  DeviceRoom& operator=(const DeviceRoom&) = delete;

  const Gpu& gpu;
  Gpu::Memory original;  // the input
  Gpu::Memory spoiled;   // what an output is before the operation: nothing of it is right
  Gpu::Memory pinned;
  void* begin;  // events
  void* end;
};

class DeviceWorkload final : public Workload {
 public:
  // `nccl` is null where the group is measured.
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
  std::vector<Call> calls_;
  std::vector<std::byte> wanted_;
  std::size_t wanted_count_ = 0;
};

}  // namespace dl::collectives::bench
