#include "core/kernels/declared/loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/kernels/cpu/common/parts.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/formulas/numbers.h"
#include "core/kernels/formulas/scalars.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/loss/pair_loss.cc"
#endif
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/vector/lanes-inl.h"

#ifndef DLRUN_CORE_KERNELS_CPU_PAIR_LOSS_
#define DLRUN_CORE_KERNELS_CPU_PAIR_LOSS_
namespace dl::kernels::cpu {
namespace {

// The operands of a loss; all except input and target may be null, which means 1.
constexpr std::size_t kInput = 0;
constexpr std::size_t kTarget = 1;
constexpr std::size_t kWeight = 2;
constexpr std::size_t kPosWeight = 3;
constexpr std::size_t kGrad = 4;
constexpr std::size_t kLossOperands = 5;

// A dense run of elements, all float or all double.
struct LossRun {
  std::array<const void*, kLossOperands> in{};
  void* out = nullptr;
  std::int64_t count = 0;
  double a = 0;
  double scale = 1;  // of a slope
  bool of_target = false;
};
using LossRow = void (*)(const LossRun& run);
struct LossRows {
  LossRow values = nullptr;  // out = weight * value
  LossRow slopes = nullptr;  // out = scale * grad * weight * slope
};

}  // namespace
}  // namespace dl::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
#define DL_INLINE HWY_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::cpu::HWY_NAMESPACE
#include "core/kernels/formulas/loss_formulas-inl.h"

namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// f(in) for a vector of each operand. The tail of a run is computed in a padded copy, by the same
// instructions. A null operand always reads the same vector of ones; a branch in the loop would
// make the compiler emit a loop for each set of operands.
template <typename F>
HWY_INLINE void each_loss_vector(const LossRun& run, const F& f) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float pad[kLossOperands][hn::MaxLanes(d)];
  std::array<const float*, kLossOperands> in;
  std::array<std::int64_t, kLossOperands> moves;  // all bits, or 0
  for (std::size_t k = 0; k < kLossOperands; ++k) {
    hn::Store(hn::Set(d, 1.0f), d, pad[k]);
    in[k] = run.in[k] == nullptr ? pad[k] : static_cast<const float*>(run.in[k]);
    moves[k] = run.in[k] == nullptr ? 0 : -1;
  }
  auto* out = static_cast<float*>(run.out);
  std::int64_t whole = run.count / lanes * lanes;
  const auto tail_bytes = static_cast<std::size_t>(run.count - whole) * sizeof(float);
  float* const out_tail = out + whole;
  for (bool in_tail = false;; in_tail = true) {
    for (std::int64_t i = 0; i < whole; i += lanes) {
      const auto get = [&](std::size_t k)
                           HWY_ATTR { return Lanes(hn::LoadU(d, in[k] + (i & moves[k]))); };
      hn::StoreU(f(get).v, d, out + i);
    }
    if (in_tail) break;
    if (tail_bytes == 0) return;
    for (std::size_t k = 0; k < kLossOperands; ++k) {
      if (moves[k] == 0) continue;
      std::memcpy(pad[k], in[k] + whole, tail_bytes);
      in[k] = pad[k];
    }
    out = pad[0];
    whole = lanes;
  }
  std::memcpy(out_tail, pad[0], tail_bytes);
}

template <typename Get>
HWY_INLINE LossElement<Lanes> element_of_loss(const Get& get, double a) {
  return {get(kInput), get(kTarget), get(kPosWeight), Lanes(a)};
}

template <typename F>
void loss_values_f32(const LossRun& run) {
  each_loss_vector(run, [&](const auto& get) HWY_ATTR {
    return F::value(element_of_loss(get, run.a)) * get(kWeight);
  });
}

template <typename F>
void loss_slopes_f32(const LossRun& run) {
  const Lanes scale(run.scale);
  const auto scaled = [&](const auto& get, Lanes slope)
                          HWY_ATTR { return scale * get(kGrad) * get(kWeight) * slope; };
  if (run.of_target) {
    each_loss_vector(run, [&](const auto& get) HWY_ATTR {
      return scaled(get, F::target_slope(element_of_loss(get, run.a)));
    });
  } else {
    each_loss_vector(run, [&](const auto& get) HWY_ATTR {
      return scaled(get, F::slope(element_of_loss(get, run.a)));
    });
  }
}

LossRows find_loss_rows(PairLoss fn) {
  constexpr LossRows kRows[] = {
#define DL_PAIR_LOSS(enumerator, name, Formula, ...) \
  {&loss_values_f32<Formula>, &loss_slopes_f32<Formula>},
#include "core/elementwise/losses.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

// The sum of n numbers, by lanes.
float sum_of_floats(const float* x, std::int64_t n) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum = hn::Add(sum, hn::LoadU(d, x + i));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += x[i];
  return total;
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {
namespace {

HWY_EXPORT(find_loss_rows);
HWY_EXPORT(sum_of_floats);

template <typename Get>
formulas::LossElement<double> element_of_loss(const Get& get, double a) {
  return {get(kInput), get(kTarget), get(kPosWeight), a};
}

// out[i] = f(get); get(k) returns operand k of element i.
template <typename F>
void each_loss_scalar(const LossRun& run, const F& f) {
  constexpr double kOne = 1;
  std::array<const double*, kLossOperands> in;
  std::array<std::int64_t, kLossOperands> moves;
  for (std::size_t k = 0; k < kLossOperands; ++k) {
    in[k] = run.in[k] == nullptr ? &kOne : static_cast<const double*>(run.in[k]);
    moves[k] = run.in[k] == nullptr ? 0 : -1;
  }
  auto* const out = static_cast<double*>(run.out);
  for (std::int64_t i = 0; i < run.count; ++i) {
    out[i] = f([&](std::size_t k) { return in[k][i & moves[k]]; });
  }
}

template <typename F>
void loss_values_f64(const LossRun& run) {
  each_loss_scalar(
      run, [&](const auto& get) { return F::value(element_of_loss(get, run.a)) * get(kWeight); });
}

template <typename F>
void loss_slopes_f64(const LossRun& run) {
  each_loss_scalar(run, [&](const auto& get) {
    const auto element = element_of_loss(get, run.a);
    return run.scale * get(kGrad) * get(kWeight) *
           (run.of_target ? F::target_slope(element) : F::slope(element));
  });
}

LossRows loss_rows_of(PairLoss fn, DType compute_dtype) {
  constexpr LossRows kRows[] = {
#define DL_PAIR_LOSS(enumerator, name, Formula, ...) \
  {&loss_values_f64<formulas::Formula>, &loss_slopes_f64<formulas::Formula>},
#include "core/elementwise/losses.def"
  };
  if (compute_dtype == DType::kF32) return HWY_DYNAMIC_DISPATCH(find_loss_rows)(fn);
  return kRows[static_cast<std::size_t>(fn)];
}

constexpr std::int64_t kLossGrain = 8 * 1024;  // elements worth a thread

// A block of an operand in the compute type: in place, or widened into its own buffer.
class BlockReader {
 public:
  BlockReader(const Tensor& tensor, DType compute_dtype)
      : data_(tensor.defined() ? static_cast<const char*>(tensor.data_ptr()) : nullptr),
        size_(tensor.defined() ? static_cast<std::int64_t>(size_of(tensor.dtype())) : 0),
        load_(tensor.defined() && tensor.dtype() != compute_dtype
                  ? load_as(tensor.dtype(), compute_dtype)
                  : nullptr) {}

  const void* at(std::int64_t begin, std::int64_t count, void* block) const {
    if (data_ == nullptr) return nullptr;
    const char* const from = data_ + begin * size_;
    if (load_ == nullptr) return from;
    load_(from, 1, block, count);
    return block;
  }

 private:
  const char* data_;
  std::int64_t size_;
  Load load_;
};

struct LossBlock {
  alignas(64) double values[kBlock];  // or floats
};

// Runs `row` over all elements, block by block. Calls done(part, out, begin, count) after each
// block; its results are at `out`.
template <typename Done>
void for_each_block(const std::array<BlockReader, kLossOperands>& readers, std::int64_t n,
                    const LossRun& run, LossRow row, const Done& done) {
  parallel_parts(n, kLossGrain, [&](int part, std::int64_t begin, std::int64_t end) {
    std::array<LossBlock, kLossOperands> blocks;
    LossBlock result;
    for (std::int64_t i = begin; i < end; i += kBlock) {
      LossRun block = run;
      block.count = std::min(kBlock, end - i);
      for (std::size_t k = 0; k < kLossOperands; ++k) {
        block.in[k] = readers[k].at(i, block.count, blocks[k].values);
      }
      block.out = result.values;
      row(block);
      done(part, result.values, i, block.count);
    }
  });
}

// Writes blocks in the compute type into a tensor.
auto writer_of(const Tensor& out, DType compute_dtype) {
  return [to = static_cast<char*>(out.data_ptr()),
          size = static_cast<std::int64_t>(size_of(out.dtype())),
          store = store_from(compute_dtype, out.dtype())](int, const void* values,
                                                          std::int64_t begin, std::int64_t count) {
    store(values, to + begin * size, 1, count);
  };
}

bool is_probability(double x) {
  return x >= 0 && x <= 1;
}

// The first element outside [0, 1], or -1.
std::int64_t first_improbable(const Tensor& tensor) {
  return visit_floating(tensor.dtype(), "binary_cross_entropy", [&]<typename T>() {
    const T* const x = tensor.data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      if (!is_probability(static_cast<double>(static_cast<OpMath<T>>(x[i])))) return i;
    }
    return std::int64_t{-1};
  });
}

}  // namespace

std::int64_t pair_loss(PairLoss fn, const Tensor& input, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, const PairLossArgs& args, const Tensor& out) {
  if (fn == PairLoss::kBce) {
    if (const std::int64_t bad = first_improbable(input); bad >= 0) return bad;
    if (const std::int64_t bad = first_improbable(target); bad >= 0) return input.numel() + bad;
  }
  const DType compute_dtype = compute_dtype_of(input.dtype());
  const LossRow row = loss_rows_of(fn, compute_dtype).values;
  const std::array<BlockReader, kLossOperands> readers{
      BlockReader(input, compute_dtype), BlockReader(target, compute_dtype),
      BlockReader(weight, compute_dtype), BlockReader(pos_weight, compute_dtype),
      BlockReader({}, compute_dtype)};
  const std::int64_t n = input.numel();
  const LossRun run{.a = args.a};
  if (!args.reduced) {
    for_each_block(readers, n, run, row, writer_of(out, compute_dtype));
    return -1;
  }
  std::vector<double> sums(static_cast<std::size_t>(parts_of(n, kLossGrain)), 0.0);
  for_each_block(
      readers, n, run, row, [&](int part, const void* values, std::int64_t, std::int64_t count) {
        double sum = 0;
        if (compute_dtype == DType::kF32) {
          sum = static_cast<double>(
              HWY_DYNAMIC_DISPATCH(sum_of_floats)(static_cast<const float*>(values), count));
        } else {
          for (std::int64_t i = 0; i < count; ++i) {
            sum += static_cast<const double*>(values)[i];
          }
        }
        sums[static_cast<std::size_t>(part)] += sum;
      });
  double total = 0;
  for (const double sum : sums) total += sum;
  total /= args.divisor;
  store_from(DType::kF64, out.dtype())(&total, out.data_ptr(), 1, 1);
  return -1;
}

void pair_loss_backward(PairLoss fn, const Tensor& grad, const Tensor& input, const Tensor& target,
                        const Tensor& weight, const Tensor& pos_weight, const PairLossArgs& args,
                        bool of_target, const Tensor& d) {
  const DType compute_dtype = compute_dtype_of(input.dtype());
  LossRun run{.a = args.a, .of_target = of_target};
  if (args.reduced) {
    load_as(grad.dtype(), DType::kF64)(grad.data_ptr(), 1, &run.scale, 1);
    run.scale /= args.divisor;
  }
  const std::array<BlockReader, kLossOperands> readers{
      BlockReader(input, compute_dtype), BlockReader(target, compute_dtype),
      BlockReader(weight, compute_dtype), BlockReader(pos_weight, compute_dtype),
      BlockReader(args.reduced ? Tensor() : grad, compute_dtype)};
  for_each_block(readers, input.numel(), run, loss_rows_of(fn, compute_dtype).slopes,
                 writer_of(d, compute_dtype));
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
