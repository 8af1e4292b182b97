#include "core/kernels/cpu/elementwise/loops.h"

#include <array>

#include "core/device/parallel.h"
#include "core/kernels/cpu/common/dense_runs.h"
#include "core/kernels/element_width.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kWhereGrain = 32 * 1024;  // elements worth a thread

// Steps of the operands of a run: the output, the condition, `yes` and `no`.
using Steps = std::array<std::int64_t, 4>;

template <typename Bits>
void choose_run(Bits* out, const bool* condition, const Bits* yes, const Bits* no,
                const Steps& step, std::int64_t count) {
  const auto is_row = [](std::int64_t s) { return s == 0 || s == 1; };
  if (step[0] == 1 && step[1] == 1 && is_row(step[2]) && is_row(step[3])) {
    return choose(sizeof(Bits), {.condition = condition,
                                 .yes = yes,
                                 .yes_step = step[2],
                                 .no = no,
                                 .no_step = step[3],
                                 .out = out,
                                 .count = count});
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[i * step[0]] = condition[i * step[1]] ? yes[i * step[2]] : no[i * step[3]];
  }
}

template <typename Bits>
void choose_by_width(const Tensor& condition, const Tensor& yes, const Tensor& no,
                     const Tensor& out) {
  auto* const to = static_cast<Bits*>(out.data_ptr());
  const bool* const which = condition.data<bool>();
  const auto* const a = static_cast<const Bits*>(yes.data_ptr());
  const auto* const b = static_cast<const Bits*>(no.data_ptr());
  const Shape& shape = out.sizes();
  const auto strides_of = [&](const Tensor& operand) {
    return broadcast_strides(operand.sizes(), operand.strides(), shape);
  };
  const auto loop =
      make_loop<4>(shape, {out.strides(), strides_of(condition), strides_of(yes), strides_of(no)});
  const Steps step{loop.inner_stride(0), loop.inner_stride(1), loop.inner_stride(2),
                   loop.inner_stride(3)};
  parallel_for(loop.count, kWhereGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      choose_run(to + at[0], which + at[1], a + at[2], b + at[3], step, length);
    });
  });
}

}  // namespace

void where(const Tensor& condition, const Tensor& yes, const Tensor& no, const Tensor& out) {
  if (out.numel() == 0) return;
  visit_width(size_of(out.dtype()),
              [&]<typename Bits>() { choose_by_width<Bits>(condition, yes, no, out); });
}

}  // namespace dl::kernels::cpu
