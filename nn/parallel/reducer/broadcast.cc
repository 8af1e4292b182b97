#include "nn/parallel/reducer/broadcast.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/tensor/factories.h"

namespace dl::nn::parallel {
namespace {

// From this size on, sending a tensor by itself is cheaper than copying it into a packed message
// and out.
constexpr std::size_t kAloneBytes = std::size_t{256} * 1024;

bool travels_alone(const Tensor& tensor) noexcept {
  return tensor.is_contiguous() && tensor.nbytes() >= kAloneBytes;
}

// How many bytes a tensor takes in a packed message, in which each tensor is aligned for any dtype.
std::size_t room_of(const Tensor& tensor) noexcept {
  constexpr std::size_t kUnit = 16;
  return (tensor.nbytes() + kUnit - 1) / kUnit * kUnit;
}

// A contiguous tensor with the shape and dtype of `like`, in the memory of `packed` from byte `at`
// on.
Tensor place_in(const Tensor& packed, std::size_t at, const Tensor& like) {
  return Tensor(
      make_ref<TensorImpl>(packed.storage(), like.sizes(), contiguous_strides(like.sizes()),
                           static_cast<std::int64_t>(at / size_of(like.dtype())), like.dtype()));
}

}  // namespace

void broadcast_tensors(collectives::ProcessGroup& group, std::span<const Tensor> tensors,
                       int root) {
  if (group.size() == 1 || tensors.empty()) return;
  std::vector<std::pair<Ref<collectives::Work>, Stream>> works;
  // Sends all dtypes as bytes, because nothing is computed with them.
  const auto start = [&](const Tensor& tensor) {
    const Stream stream = stream_of(tensor);
    works.emplace_back(
        group.broadcast({.buffer = tensor.data_ptr(),
                         .count = tensor.nbytes(),
                         .dtype = DType::kU8,
                         .root = root,
                         .call = {.stream = stream, .keep_alive = tensor.storage()}}),
        stream);
  };
  std::vector<Tensor> together;
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (travels_alone(tensor)) {
      start(tensor);
    } else {
      together.push_back(tensor);
      bytes += room_of(tensor);
    }
  }

  const NoGradGuard no_grad;
  const Tensor packed = empty({static_cast<std::int64_t>(bytes)},
                              {.dtype = DType::kU8, .device = tensors.front().device()});
  std::size_t at = 0;
  if (group.rank() == root) {
    for (const Tensor& tensor : together) {
      place_in(packed, at, tensor).copy_(tensor.detach());
      at += room_of(tensor);
    }
  }
  if (bytes > 0) start(packed);
  for (const auto& [work, stream] : works) work->wait(stream);
  if (group.rank() == root) return;

  for (const Tensor& tensor : tensors) {
    if (travels_alone(tensor)) tensor.bump_version();
  }
  for (const Tensor& tensor : together) {
    tensor.detach().copy_(place_in(packed, at, tensor));
    at += room_of(tensor);
  }
}

}  // namespace dl::nn::parallel
