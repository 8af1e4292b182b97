// Gradient clipping and averages of weights. Threads divide the concatenation of all tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/declared/optimizer.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kListGrain = 32 * 1024;  // elements worth a thread

// Elements from `begin` to `end` of a tensor of a list.
struct ListPart {
  std::size_t tensor;
  std::int64_t begin, end;
};

std::vector<char*> data_of(std::span<const Tensor> tensors) {
  std::vector<char*> data;
  for (const Tensor& tensor : tensors) data.push_back(static_cast<char*>(tensor.data_ptr()));
  return data;
}

template <typename Act>
void divide(std::span<const Tensor> tensors, const Act& act) {
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) total += tensor.numel();
  parallel_for(total, kListGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::int64_t from = std::max<std::int64_t>(0, begin - start);
      const std::int64_t to = std::min(tensors[i].numel(), end - start);
      start += tensors[i].numel();
      if (from < to) act(ListPart{i, from, to});
    }
  });
}

// Reads a part's elements in blocks of M, the compute type: calls act(block, count).
template <typename M, typename Act>
void read_blocks(const char* data, DType dtype, const ListPart& part, const Act& act) {
  const DType wide = std::is_same_v<M, double> ? DType::kF64 : DType::kF32;
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  const Load load = load_as(dtype, wide);
  M block[kBlock];
  for (std::int64_t i = part.begin; i < part.end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, part.end - i);
    if (dtype == wide) {
      act(reinterpret_cast<const M*>(data) + i, count);
    } else {
      load(data + i * width, 1, block, count);
      act(static_cast<const M*>(block), count);
    }
  }
}

// Changes a part's elements in blocks: calls act(block, count, the number of its first element).
template <typename M, typename Act>
void change_blocks(char* data, DType dtype, const ListPart& part, const Act& act) {
  const DType wide = std::is_same_v<M, double> ? DType::kF64 : DType::kF32;
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  const Load load = load_as(dtype, wide);
  const Store store = store_from(wide, dtype);
  M block[kBlock];
  for (std::int64_t i = part.begin; i < part.end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, part.end - i);
    if (dtype == wide) {
      act(reinterpret_cast<M*>(data) + i, count, i);
    } else {
      load(data + i * width, 1, block, count);
      act(block, count, i);
      store(block, data + i * width, 1, count);
    }
  }
}

template <typename Act>
void in_compute_type(DType dtype, const Act& act) {
  dtype == DType::kF64 ? act.template operator()<double>() : act.template operator()<float>();
}

// Combines term(x) of a block in a fixed order, which is that of no machine's vectors.
template <typename M, typename Term, typename Combine>
M combined(const M* x, std::int64_t count, const Term& term, const Combine& combine) {
  constexpr std::int64_t kLanes = 16;
  M lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = combine(lanes[k], term(x[i + k]));
  }
  for (std::int64_t k = 0; i < count; ++i, ++k) lanes[k] = combine(lanes[k], term(x[i]));
  M total = 0;
  for (const M lane : lanes) total = combine(total, lane);
  return total;
}

// The larger of two numbers. NaN counts as the largest.
struct LargerNorm {
  template <typename M>
  M operator()(M a, M b) const {
    return b > a || b != b ? b : a;
  }
};
struct PlusNorm {
  template <typename M>
  M operator()(M a, M b) const {
    return a + b;
  }
};

template <typename M>
M norm_of_block(const M* x, std::int64_t count, NormKind kind, double p) {
  switch (kind) {
    case NormKind::kAbsolutes:
      return combined(x, count, [](M v) { return std::abs(v); }, PlusNorm());
    case NormKind::kSquares:
      return combined(x, count, [](M v) { return v * v; }, PlusNorm());
    case NormKind::kPowers:
      return combined(
          x, count, [order = static_cast<M>(p)](M v) { return std::pow(std::abs(v), order); },
          PlusNorm());
    case NormKind::kLargest:
      break;
  }
  return combined(x, count, [](M v) { return std::abs(v); }, LargerNorm());
}

double plus_or_larger(NormKind kind, double a, double b) {
  return kind == NormKind::kLargest ? LargerNorm()(a, b) : a + b;
}

template <typename N>
void clip_by(std::span<const Tensor> gradients, N max_norm, N norm) {
  const N factor = max_norm / (norm + N(1e-6));
  if (factor >= N(1)) return;
  const std::vector<char*> data = data_of(gradients);
  divide(gradients, [&](const ListPart& part) {
    const DType dtype = gradients[part.tensor].dtype();
    in_compute_type(dtype, [&]<typename M>() {
      const M by = static_cast<M>(factor);
      change_blocks<M>(data[part.tensor], dtype, part, [by](M* x, std::int64_t count, auto) {
        for (std::int64_t i = 0; i < count; ++i) x[i] *= by;
      });
    });
  });
}

}  // namespace

void grad_norm(std::span<const Tensor> gradients, double p, const Tensor& norm) {
  const NormKind kind = norm_kind(p);
  const std::vector<char*> data = data_of(gradients);
  // The parts depend on the tensors alone, so that the sum does not depend on the threads.
  std::vector<ListPart> parts;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::int64_t size = gradients[i].numel();
    elements += size;
    for (std::int64_t begin = 0; begin < size; begin += kListGrain) {
      parts.push_back({i, begin, std::min(begin + kListGrain, size)});
    }
  }
  std::vector<double> totals(parts.size());
  const auto count = static_cast<std::int64_t>(parts.size());
  const std::int64_t grain = count * kListGrain / std::max<std::int64_t>(1, elements);
  parallel_for(count, std::max<std::int64_t>(1, grain), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t k = from; k < to; ++k) {
      const ListPart& part = parts[static_cast<std::size_t>(k)];
      const DType dtype = gradients[part.tensor].dtype();
      double total = 0;
      in_compute_type(dtype, [&]<typename M>() {
        read_blocks<M>(data[part.tensor], dtype, part, [&](const M* x, std::int64_t length) {
          total =
              plus_or_larger(kind, total, static_cast<double>(norm_of_block(x, length, kind, p)));
        });
      });
      totals[static_cast<std::size_t>(k)] = total;
    }
  });
  double total = 0;
  for (const double part : totals) total = plus_or_larger(kind, total, part);
  if (kind == NormKind::kSquares) total = std::sqrt(total);
  if (kind == NormKind::kPowers) total = std::pow(total, 1 / p);
  if (norm.dtype() == DType::kF64) {
    *norm.data<double>() = total;
  } else {
    *norm.data<float>() = static_cast<float>(total);
  }
}

void clip_grad_norm(std::span<const Tensor> gradients, double max_norm, const Tensor& norm) {
  if (norm.dtype() == DType::kF64) {
    clip_by(gradients, max_norm, *norm.data<double>());
  } else {
    clip_by(gradients, static_cast<float>(max_norm), *norm.data<float>());
  }
}

void clip_grad_value(Device, std::span<const Tensor> gradients, double bound) {
  const std::vector<char*> data = data_of(gradients);
  divide(gradients, [&](const ListPart& part) {
    const DType dtype = gradients[part.tensor].dtype();
    in_compute_type(dtype, [&]<typename M>() {
      const M limit = static_cast<M>(bound);
      change_blocks<M>(data[part.tensor], dtype, part, [limit](M* x, std::int64_t count, auto) {
        for (std::int64_t i = 0; i < count; ++i) {
          x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
        }
      });
    });
  });
}

void average_weights(std::span<const Tensor> averages, std::span<const Tensor> values,
                     const Tensor& count, const AverageStep& step) {
  const std::vector<char*> to = data_of(averages);
  const std::vector<char*> from = data_of(values);
  const std::int64_t before = *count.data<std::int64_t>();
  const bool copies = step.kind == AverageStep::Kind::kCopy || before == 0;
  const double share = step.kind == AverageStep::Kind::kMoving
                           ? 1 - step.decay
                           : 1 / (static_cast<double>(before) + 1);
  divide(averages, [&](const ListPart& part) {
    const DType dtype = averages[part.tensor].dtype();
    const auto width = static_cast<std::int64_t>(size_of(dtype));
    char* const average = to[part.tensor];
    const char* const value = from[part.tensor];
    if (copies) {
      std::memcpy(average + part.begin * width, value + part.begin * width,
                  static_cast<std::size_t>((part.end - part.begin) * width));
      return;
    }
    in_compute_type(dtype, [&]<typename M>() {
      const M weight = static_cast<M>(share);
      change_blocks<M>(average, dtype, part, [&](M* x, std::int64_t length, std::int64_t first) {
        read_blocks<M>(value, dtype, {part.tensor, first, first + length},
                       [&](const M* y, std::int64_t) {
                         for (std::int64_t i = 0; i < length; ++i) {
                           x[i] = formulas::Lerp::value(x[i], y[i], weight);
                         }
                       });
      });
    });
  });
}

}  // namespace dl::kernels::cpu
