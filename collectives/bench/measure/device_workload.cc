#include "collectives/bench/measure/device_workload.h"

#include <algorithm>
#include <cstring>

#include "collectives/bench/operation/values.h"

namespace dl::collectives::bench {
namespace {

// Results are copied to the host in pieces of this size, which are whole elements.
constexpr std::size_t kPiece = std::size_t{16} << 20;

}  // namespace

DeviceRoom::DeviceRoom(const Gpu& on, std::size_t bytes, bool checks)
    : gpu(on),
      original(on.allocate(bytes)),
      spoiled(on.allocate(checks ? bytes : 1)),
      pinned(on.allocate_pinned(std::min(bytes, kPiece))),
      begin(on.runtime().make_event(on.device(), true)),
      end(on.runtime().make_event(on.device(), true)) {}

DeviceRoom::~DeviceRoom() {
  gpu.runtime().destroy_event(begin);
  gpu.runtime().destroy_event(end);
}

DeviceWorkload::DeviceWorkload(ProcessGroup& group, const Options& options,
                               const Operation& operation, const Case& what, const Shape& shape,
                               Arena& inputs, Arena& outputs, DeviceRoom& room, BareNccl* nccl)
    : group_(group),
      operation_(operation),
      room_(room),
      dtype_(what.dtype),
      input_bytes_(shape.input * size_of(what.dtype)),
      calls_(calls_of(group, options, operation, what, shape, inputs, outputs)) {
  for (TimedCall& call : calls_) {
    call.options.stream = room_.gpu.stream();
    call.nccl = nccl;
  }
  std::vector<std::byte> bytes(input_bytes_);
  fill(dtype_, group_.rank(), bytes.data(), shape.input, 0);
  to_device(room_.original, bytes);
  if (operation.expect == nullptr || options.check == 0) return;
  wanted_.resize(std::max(shape.input, shape.output) * size_of(dtype_));
  wanted_count_ = operation.expect(group, calls_.front(), wanted_.data());
  bytes.resize(wanted_count_ * size_of(dtype_));
  std::transform(wanted_.begin(), wanted_.begin() + static_cast<std::ptrdiff_t>(bytes.size()),
                 bytes.begin(), [](std::byte b) { return ~b; });
  to_device(room_.spoiled, bytes);
}

void DeviceWorkload::to_device(Gpu::Memory& to, const std::vector<std::byte>& from) {
  for (std::size_t at = 0; at < from.size(); at += kPiece) {
    const std::size_t bytes = std::min(kPiece, from.size() - at);
    std::memcpy(room_.pinned.get(), from.data() + at, bytes);
    room_.gpu.copy(to.get() + at, room_.pinned.get(), bytes);
    room_.gpu.synchronize();
  }
}

void DeviceWorkload::rewrite() {
  for (const TimedCall& call : calls_) {
    room_.gpu.copy(call.output, room_.spoiled.get(), wanted_count_ * size_of(dtype_));
    room_.gpu.copy(const_cast<std::byte*>(call.input), room_.original.get(), input_bytes_);
  }
  room_.gpu.synchronize();
}

void DeviceWorkload::begin() {
  room_.gpu.runtime().record_event(room_.begin, room_.gpu.stream().handle);
}

Ref<Work> DeviceWorkload::start(std::size_t index) {
  return operation_.start(group_, calls_[index]);
}

void DeviceWorkload::finish(std::span<const Ref<Work>> works) {
  for (const Ref<Work>& work : works) work->wait(room_.gpu.stream());
  room_.gpu.runtime().record_event(room_.end, room_.gpu.stream().handle);
  room_.gpu.runtime().synchronize_event(room_.end);
}

std::optional<double> DeviceWorkload::device_us(std::span<const Ref<Work>> works) {
  // Works also if the group was aborted: its stream has ended too.
  for (const Ref<Work>& work : works) work->synchronize();
  return 1e3 * static_cast<double>(room_.gpu.runtime().elapsed_ms(room_.begin, room_.end));
}

std::size_t DeviceWorkload::wrong() {
  const std::size_t most = kPiece / size_of(dtype_);
  std::size_t all = 0;
  for (const TimedCall& call : calls_) {
    for (std::size_t first = 0; first < wanted_count_; first += most) {
      const std::size_t count = std::min(most, wanted_count_ - first);
      const std::size_t at = first * size_of(dtype_);
      room_.gpu.copy(room_.pinned.get(), call.output + at, count * size_of(dtype_));
      room_.gpu.synchronize();
      all += count_different(dtype_, room_.pinned.get(), wanted_.data() + at, count);
    }
  }
  return all;
}

}  // namespace dl::collectives::bench
