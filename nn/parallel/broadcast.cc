#include "nn/parallel/broadcast.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/tensor/factories.h"

namespace dl::nn::parallel {
namespace {

// From here on one more message is cheaper than copying twice.
constexpr std::size_t kAloneBytes = std::size_t{256} * 1024;

bool travels_alone(const Tensor& tensor) noexcept {
  return tensor.is_contiguous() && tensor.nbytes() >= kAloneBytes;
}

// Room of a tensor among those that travel together: each begins aligned for any dtype.
std::size_t room_of(const Tensor& tensor) noexcept {
  constexpr std::size_t kUnit = 16;
  return (tensor.nbytes() + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

void broadcast_tensors(collectives::ProcessGroup& group, std::span<const Tensor> tensors,
                       int root) {
  if (group.size() == 1) return;
  std::vector<Ref<collectives::Work>> works;
  // Bytes, whatever the dtypes: nothing is computed with them.
  const auto start = [&](const Tensor& tensor) {
    works.push_back(group.broadcast({.buffer = tensor.data_ptr(),
                                     .count = tensor.nbytes(),
                                     .dtype = DType::kU8,
                                     .root = root,
                                     .call = {.holds = tensor.storage()}}));
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
  const Tensor packed = empty({static_cast<std::int64_t>(bytes)}, {.dtype = DType::kU8});
  auto* const begin = static_cast<std::byte*>(packed.data_ptr());
  std::size_t at = 0;
  if (group.rank() == root) {
    for (const Tensor& tensor : together) {
      const Tensor rows = tensor.contiguous();
      if (rows.nbytes() > 0) std::memcpy(begin + at, rows.data_ptr(), rows.nbytes());
      at += room_of(tensor);
    }
  }
  if (bytes > 0) start(packed);
  for (const Ref<collectives::Work>& work : works) work->wait();
  if (group.rank() == root) return;

  for (const Tensor& tensor : tensors) {
    if (travels_alone(tensor)) tensor.bump_version();
  }
  for (const Tensor& tensor : together) {
    tensor.detach().copy_(from_blob(begin + at, tensor.sizes(), tensor.dtype(), packed.storage()));
    at += room_of(tensor);
  }
}

}  // namespace dl::nn::parallel
