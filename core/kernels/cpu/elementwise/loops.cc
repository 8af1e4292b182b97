#include "core/kernels/cpu/elementwise/loops.h"

#include <array>
#include <cstring>
#include <optional>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kElementwiseGrain = 32 * 1024;  // elements worth a thread
constexpr std::size_t kMostInputs = 3;

// Bytes of a block that is converted at once: four blocks fit into L1. With half the size, the
// calls for each block cost bfloat16 a seventh of its time.
constexpr std::int64_t kBlockBytes = 4096;
using Block = std::array<std::uint64_t, kBlockBytes / sizeof(std::uint64_t)>;

Row row_for(const Rows& rows, DType dtype) {
  switch (compute_dtype_of(dtype)) {
    case DType::kF32:
      return rows.f32;
    case DType::kF64:
      return rows.f64;
    default:
      return dtype == DType::kU64 ? rows.u64 : rows.i64;
  }
}

// Stores a block of bools, `step` apart.
void store_bools(const void* block, void* to, std::int64_t step, std::int64_t count) {
  const auto* const from = static_cast<const bool*>(block);
  auto* const out = static_cast<bool*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i * step] = from[i];
}

// True if rows can work on the tensor's own memory.
bool needs_conversion(DType dtype, DType compute_dtype) {
  return dtype != compute_dtype && !(dtype == DType::kU64 && compute_dtype == DType::kI64);
}

struct Input {
  const char* data = nullptr;
  std::int64_t width = 0;
  Load load = nullptr;
  bool is_converted = false;
  bool is_bf16 = false;
};

struct Operation {
  Row row = nullptr;
  Row bf16_row = nullptr;  // if the output is bfloat16 and the operation has such a row
  Parameters parameters;
  std::size_t input_count = 0;
  std::array<Input, kMostInputs> inputs;
  char* out = nullptr;
  std::int64_t out_width = 0;
  std::size_t compute_width = 0;
  Store store = nullptr;
  bool stores_converted = false;

  // Computes a run of elements, given the offsets (the output first) and steps of the operands in
  // elements.
  void run(const std::int64_t* at, const std::int64_t* step, std::int64_t length) const {
    RowArguments arguments{
        .in = {}, .step = {}, .out = nullptr, .count = length, .parameters = parameters};
    std::array<Block, kMostInputs> blocks;
    Block result;
    bool dense = true;       // all operands are dense and in the compute type,
    bool dense_bf16 = true;  // or dense bfloat16
    for (std::size_t k = 0; k < input_count; ++k) {
      const Input& input = inputs[k];
      const std::int64_t input_step = step[k + 1];
      arguments.in[k] = input.data + at[k + 1] * input.width;
      arguments.step[k] = 1;
      if (input_step == 0 && length > 1) {
        splat(input, arguments.in[k], blocks[k]);
        arguments.in[k] = blocks[k].data();
        arguments.step[k] = 0;
      } else {
        const bool is_row = input_step == 1 || length == 1;
        dense = dense && is_row && !input.is_converted;
        dense_bf16 = dense_bf16 && is_row && input.is_bf16;
      }
    }
    const bool writes_row = step[0] == 1 || length == 1;
    const bool writes_dense = !stores_converted && writes_row;
    const bool as_bf16 = bf16_row != nullptr && dense_bf16 && writes_row;
    if (as_bf16 || (dense && writes_dense)) {
      arguments.out = out + at[0] * out_width;
      return as_bf16 ? bf16_row(arguments) : row(arguments);
    }
    const std::array<const void*, kMostInputs> begin{arguments.in[0], arguments.in[1],
                                                     arguments.in[2]};
    const std::int64_t at_once = kBlockBytes / static_cast<std::int64_t>(compute_width);
    for (std::int64_t i = 0; i < length; i += at_once) {
      arguments.count = std::min(at_once, length - i);
      for (std::size_t k = 0; k < input_count; ++k) {
        const Input& input = inputs[k];
        const std::int64_t input_step = step[k + 1];
        if (arguments.step[k] == 0) continue;
        const char* const from = static_cast<const char*>(begin[k]) + i * input_step * input.width;
        if (!input.is_converted && input_step == 1) {
          arguments.in[k] = from;
        } else {
          input.load(from, input_step, blocks[k].data(), arguments.count);
          arguments.in[k] = blocks[k].data();
        }
      }
      char* const to = out + (at[0] + i * step[0]) * out_width;
      arguments.out = writes_dense ? static_cast<void*>(to) : result.data();
      row(arguments);
      if (!writes_dense) store(result.data(), to, step[0], arguments.count);
    }
  }

  // Repeats one value, so that a vector of it can be loaded.
  void splat(const Input& input, const void* from, Block& block) const {
    input.load(from, 1, block.data(), 1);
    auto* const bytes = reinterpret_cast<char*>(block.data());
    for (std::size_t filled = compute_width; filled < static_cast<std::size_t>(kSplat);
         filled *= 2) {
      std::memcpy(bytes + filled, bytes, filled);
    }
  }
};

Operation prepare(const Rows& rows, std::span<const Tensor* const> inputs,
                  const Parameters& parameters, const Tensor& output) {
  const DType dtype = rows.give_bool ? inputs[0]->dtype() : output.dtype();
  const DType compute_dtype = compute_dtype_of(dtype);
  Operation result{
      .row = row_for(rows, dtype),
      .bf16_row = output.dtype() == DType::kBF16 ? rows.bf16 : nullptr,
      .parameters = parameters,
      .input_count = inputs.size(),
      .inputs = {},
      .out = static_cast<char*>(output.data_ptr()),
      .out_width = static_cast<std::int64_t>(size_of(output.dtype())),
      .compute_width = size_of(compute_dtype),
      .store = nullptr,
      .stores_converted = !rows.give_bool && needs_conversion(output.dtype(), compute_dtype)};
  result.store = rows.give_bool ? &store_bools : store_from(compute_dtype, output.dtype());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const DType from = inputs[k]->dtype();
    result.inputs[k] = {static_cast<const char*>(inputs[k]->data_ptr()),
                        static_cast<std::int64_t>(size_of(from)), load_as(from, compute_dtype),
                        needs_conversion(from, compute_dtype), from == DType::kBF16};
  }
  return result;
}

template <std::size_t kInputs>
void run_strided(const Operation& operation, std::span<const Tensor* const> inputs,
                 const Tensor& output) {
  const Shape& shape = output.sizes();
  std::array<Strides, kInputs + 1> strides{output.strides()};
  for (std::size_t k = 0; k < kInputs; ++k) {
    strides[k + 1] = broadcast_strides(inputs[k]->sizes(), inputs[k]->strides(), shape);
  }
  const auto loop = make_loop<kInputs + 1>(shape, strides);
  std::array<std::int64_t, kInputs + 1> step;
  for (std::size_t k = 0; k < step.size(); ++k) step[k] = loop.inner_stride(k);
  parallel_for(loop.count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      operation.run(at, step.data(), length);
    });
  });
}

using FlatSteps = std::array<std::int64_t, kMostInputs + 1>;  // of the output, then of the inputs

// The steps with which one loop passes over all elements, or nothing.
std::optional<FlatSteps> flat_steps(std::span<const Tensor* const> inputs, const Tensor& output) {
  FlatSteps step{1};
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const bool alike = same_layout(*inputs[k], output);
    if (!alike && inputs[k]->numel() != 1) return std::nullopt;
    step[k + 1] = alike ? 1 : 0;
  }
  return step;
}

void run_flat(const Operation& operation, const FlatSteps& step, std::int64_t first,
              std::int64_t count) {
  const FlatSteps at{first, first * step[1], first * step[2], first * step[3]};
  operation.run(at.data(), step.data(), count);
}

}  // namespace

void run_rows(const Rows& rows, std::span<const Tensor* const> inputs, const Parameters& parameters,
              const Tensor& output) {
  if (output.numel() == 0) return;
  const Operation operation = prepare(rows, inputs, parameters, output);
  const std::optional<FlatSteps> step = flat_steps(inputs, output);
  if (!step) {
    switch (inputs.size()) {
      case 1:
        return run_strided<1>(operation, inputs, output);
      case 2:
        return run_strided<2>(operation, inputs, output);
      default:
        return run_strided<3>(operation, inputs, output);
    }
  }
  parallel_for(output.numel(), kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    run_flat(operation, *step, begin, end - begin);
  });
}

PartWork rows_in_parts(const Rows& rows, std::span<const Tensor* const> inputs,
                       const Parameters& parameters, const Tensor& output) {
  const std::optional<FlatSteps> step = flat_steps(inputs, output);
  if (!step || !is_dense(output.sizes(), output.strides())) return {};
  return [operation = prepare(rows, inputs, parameters, output), step = *step](
             std::int64_t first, std::int64_t count) { run_flat(operation, step, first, count); };
}

}  // namespace dl::kernels::cpu
