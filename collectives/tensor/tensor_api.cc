#include "collectives/tensor/tensor_api.h"

#include <vector>

#include "collectives/tensor/tensor_checks.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/tensor/factories.h"
#include "core/tensor/layout/shape.h"

namespace dl::collectives {

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

void check_one(std::string_view operation, std::string_view what, const Tensor& tensor) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "{}: {} is an undefined tensor", operation, what);
  DL_CHECK(tensor.is_contiguous(), kInvalidArgument,
           "{}: {} is not contiguous; give {}.contiguous(), or a tensor laid out row by row",
           operation, what, what);
  if (const Ref<RefCounted>& owner = tensor.storage()->owner()) owner->check_memory(operation);
}

void check_pair(std::string_view operation, std::string_view whole_name, const Tensor& whole,
                std::string_view part_name, const Tensor& part, int size) {
  check_one(operation, whole_name, whole);
  check_one(operation, part_name, part);
  DL_CHECK(whole.device() == part.device(), kInvalidArgument, "{}: {} is on {}, {} is on {}",
           operation, whole_name, whole.device().str(), part_name, part.device().str());
  DL_CHECK(whole.dtype() == part.dtype(), kDType, "{}: {} is {}, {} is {}", operation, whole_name,
           name_of(whole.dtype()), part_name, name_of(part.dtype()));
  DL_CHECK(count_of(whole) == count_of(part) * static_cast<std::size_t>(size), kShape,
           "{}: {} has {} elements, wanted {} for {} ranks with {} each", operation, whole_name,
           whole.numel(), part.numel() * size, size, part.numel());
}

namespace {

struct Held final : RefCounted {
  std::vector<Ref<RefCounted>> storages;
};

}  // namespace

Ref<RefCounted> hold(std::span<const Tensor> tensors) {
  auto held = make_ref<Held>();
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) held->storages.emplace_back(tensor.storage());
  }
  return held;
}

Ref<RefCounted> hold(std::initializer_list<Tensor> tensors) {
  return hold(std::span<const Tensor>(tensors.begin(), tensors.size()));
}

CallOptions holding(const CallOptions& call, const Tensor& tensor, Ref<RefCounted> owner) {
  CallOptions with = call;
  const Device device = tensor.device();
  if (device.type == DeviceType::kCUDA && call.stream.device.type == DeviceType::kCPU) {
    with.stream = cuda::current_stream(device.index);
  }
  with.keep_alive = std::move(owner);
  return with;
}

Ref<Work> all_reduce(ProcessGroup& group, const Tensor& tensor, const TensorReduceOptions& o) {
  check_one("all_reduce", "tensor", tensor);
  tensor.bump_version();
  return group.all_reduce({.input = tensor.data_ptr(),
                           .output = tensor.data_ptr(),
                           .count = count_of(tensor),
                           .dtype = tensor.dtype(),
                           .op = o.op,
                           .call = holding(o.call, tensor, tensor.storage())});
}

Ref<Work> broadcast(ProcessGroup& group, const Tensor& tensor, const TensorRootOptions& o) {
  check_one("broadcast", "tensor", tensor);
  if (group.rank() != o.root) tensor.bump_version();
  return group.broadcast({.buffer = tensor.data_ptr(),
                          .count = count_of(tensor),
                          .dtype = tensor.dtype(),
                          .root = o.root,
                          .call = holding(o.call, tensor, tensor.storage())});
}

Ref<Work> all_gather(ProcessGroup& group, const Tensor& output, const Tensor& input,
                     const CallOptions& call) {
  check_pair("all_gather", "output", output, "input", input, group.size());
  output.bump_version();
  return group.all_gather({.input = input.data_ptr(),
                           .output = output.data_ptr(),
                           .count = count_of(input),
                           .dtype = input.dtype(),
                           .call = holding(call, input, hold({output, input}))});
}

Ref<Work> reduce_scatter(ProcessGroup& group, const Tensor& output, const Tensor& input,
                         const TensorReduceOptions& o) {
  check_pair("reduce_scatter", "input", input, "output", output, group.size());
  output.bump_version();
  return group.reduce_scatter({.input = input.data_ptr(),
                               .output = output.data_ptr(),
                               .count = count_of(output),
                               .dtype = output.dtype(),
                               .op = o.op,
                               .call = holding(o.call, input, hold({output, input}))});
}

namespace {

SendOptions to_options(const TensorSend& message) {
  const Tensor& tensor = message.tensor;
  check_one("send", "tensor", tensor);
  return {.buffer = tensor.data_ptr(),
          .count = count_of(tensor),
          .dtype = tensor.dtype(),
          .peer = message.to.peer,
          .tag = message.to.tag,
          .call = holding(message.to.call, tensor, tensor.storage())};
}

RecvOptions to_options(const TensorRecv& message) {
  const Tensor& tensor = message.tensor;
  check_one("recv", "tensor", tensor);
  return {.buffer = tensor.data_ptr(),
          .count = count_of(tensor),
          .dtype = tensor.dtype(),
          .peer = message.from.peer,
          .tag = message.from.tag,
          .call = holding(message.from.call, tensor, tensor.storage())};
}

}  // namespace

Ref<Work> send(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& o) {
  return group.send(to_options(TensorSend{tensor, o}));
}

Ref<Work> recv(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& o) {
  const RecvOptions options = to_options(TensorRecv{tensor, o});
  tensor.bump_version();
  return group.recv(options);
}

Ref<Work> sendrecv(ProcessGroup& group, const Tensor& sent, const TensorMessageOptions& to,
                   const Tensor& received, const TensorMessageOptions& from) {
  const TensorMessage both[] = {TensorSend{sent, to}, TensorRecv{received, from}};
  return batch(group, both);
}

Ref<Work> batch(ProcessGroup& group, std::span<const TensorMessage> messages) {
  std::vector<PeerMessage> all;
  for (const TensorMessage& message : messages) {
    std::visit([&](const auto& one) { all.emplace_back(to_options(one)); }, message);
  }
  for (const TensorMessage& message : messages) {
    if (const auto* const received = std::get_if<TensorRecv>(&message)) {
      received->tensor.bump_version();
    }
  }
  return group.batch(all);
}

}  // namespace dl::collectives

namespace dl {

Tensor symmetric_empty(const Shape& shape, DType dtype, collectives::ProcessGroup& group) {
  const Ref<collectives::SymmetricMemory> memory =
      group.allocate_symmetric(byte_count(shape, dtype, "symmetric_empty"));
  return from_blob(memory->data(), shape, dtype, memory);
}

Ref<collectives::SymmetricMemory> register_buffer(const Tensor& tensor,
                                                  collectives::ProcessGroup& group) {
  collectives::check_one("register_buffer", "tensor", tensor);
  return group.register_symmetric(tensor.data_ptr(), tensor.nbytes(), tensor.storage());
}

}  // namespace dl
