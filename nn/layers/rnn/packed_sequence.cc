// Packing and padding of sequences.
#include "nn/layers/rnn/packed_sequence.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/ops/index/index.h"
#include "core/tensor/factories.h"

namespace dl::nn {
namespace {

void check_order(const std::vector<std::int64_t>& order, std::int64_t count, std::string_view name,
                 std::string_view op) {
  if (order.empty()) return;
  DL_CHECK(static_cast<std::int64_t>(order.size()) == count, kInvalidArgument,
           "{}: {} has {} numbers, wanted none or batch_sizes[0] = {}", op, name, order.size(),
           count);
  std::vector<bool> seen(order.size());
  for (const std::int64_t i : order) {
    DL_CHECK(i >= 0 && i < count && !seen[static_cast<std::size_t>(i)], kInvalidArgument,
             "{}: {} has {}, wanted each number from 0 to {} once", op, name, i, count - 1);
    seen[static_cast<std::size_t>(i)] = true;
  }
}

}  // namespace

void detail::check_packed(const PackedSequence& sequence, std::string_view op) {
  const std::vector<std::int64_t>& sizes = sequence.batch_sizes;
  DL_CHECK(sequence.data.defined() && sequence.data.dim() >= 1 && !sizes.empty(), kInvalidArgument,
           "{}: the sequence is empty", op);
  const std::int64_t rows = sequence.data.size(0);
  std::int64_t left = rows;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const std::int64_t most = t == 0 ? rows : sizes[t - 1];
    DL_CHECK(sizes[t] >= 1 && sizes[t] <= most, kInvalidArgument,
             "{}: batch_sizes[{}] is {}, wanted 1 to {}; they never rise", op, t, sizes[t], most);
    left -= std::min(sizes[t], left + 1);
  }
  DL_CHECK(left == 0, kInvalidArgument,
           "{}: batch_sizes add up to {} than the {} rows of data; wanted as many", op,
           left > 0 ? "less" : "more", rows);
  check_order(sequence.sorted_indices, sizes.front(), "sorted_indices", op);
  check_order(sequence.unsorted_indices, sizes.front(), "unsorted_indices", op);
}

Tensor detail::rows_at(const Tensor& x, const std::vector<std::int64_t>& order, std::int64_t dim) {
  if (order.empty() || !x.defined()) return x;
  return index_select(x, dim, tensor(order).to(x.device()));
}

namespace utils::rnn {
namespace {

using detail::rows_at;

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

// The sequences [L, N, ...] with `padding` behind, up to `length` steps.
Tensor lengthened(const Tensor& steps_first, std::int64_t length, double padding) {
  const std::int64_t missing = length - steps_first.size(0);
  if (missing == 0) return steps_first;
  Shape shape = steps_first.sizes();
  shape[0] = missing;
  return cat({steps_first, full(shape, padding,
                                {.dtype = steps_first.dtype(), .device = steps_first.device()})});
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& input, std::span<const std::int64_t> lengths,
                                    PackOptions options) {
  constexpr std::string_view kOp = "pack_padded_sequence";
  DL_CHECK(input.defined() && input.dim() >= 2, kShape,
           "{}: the input has shape {}, wanted steps and sequences", kOp,
           input.defined() ? input.sizes().str() : "none (undefined)");
  const Tensor given = options.batch_first ? input.transpose(0, 1) : input;
  const std::int64_t steps = given.size(0);
  const auto count = static_cast<std::int64_t>(lengths.size());
  DL_CHECK(count == given.size(1) && count > 0, kInvalidArgument, "{}: {} lengths for {} sequences",
           kOp, count, given.size(1));
  for (const std::int64_t length : lengths) {
    DL_CHECK(length >= 1 && length <= steps, kInvalidArgument, "{}: a length is {}, wanted 1 to {}",
             kOp, length, steps);
  }
  PackedSequence result;
  std::vector<std::int64_t> sorted(lengths.begin(), lengths.end());
  if (!std::ranges::is_sorted(sorted, std::greater())) {
    DL_CHECK(!options.enforce_sorted, kInvalidArgument,
             "{}: the lengths rise; sort the sequences, or set enforce_sorted = false", kOp);
    result.sorted_indices.resize(sorted.size());
    std::iota(result.sorted_indices.begin(), result.sorted_indices.end(), std::int64_t{0});
    std::ranges::stable_sort(result.sorted_indices, std::greater(),
                             [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; });
    result.unsorted_indices = inverse(result.sorted_indices);
    std::ranges::sort(sorted, std::greater());
  }
  const Tensor ordered = rows_at(given, result.sorted_indices, 1);
  std::vector<Tensor> parts;
  for (std::int64_t t = 0; t < sorted.front(); ++t) {
    const auto running = std::ranges::count_if(sorted, [t](std::int64_t l) { return l > t; });
    result.batch_sizes.push_back(running);
    parts.push_back(ordered[t].narrow(0, 0, running));
  }
  result.data = cat(parts);
  return result;
}

std::pair<Tensor, std::vector<std::int64_t>> pad_packed_sequence(const PackedSequence& sequence,
                                                                 PadOptions options) {
  constexpr std::string_view kOp = "pad_packed_sequence";
  detail::check_packed(sequence, kOp);
  const std::vector<std::int64_t>& sizes = sequence.batch_sizes;
  const auto steps = static_cast<std::int64_t>(sizes.size());
  DL_CHECK(options.total_length == 0 || options.total_length >= steps, kInvalidArgument,
           "{}: total_length is {}, and the longest sequence has {} steps", kOp,
           options.total_length, steps);
  std::vector<Tensor> rows;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(sizes.front()), 0);
  std::int64_t begin = 0;
  for (const std::int64_t running : sizes) {
    const Tensor step = sequence.data.narrow(0, begin, running);
    rows.push_back(lengthened(step, sizes.front(), options.padding_value));
    begin += running;
    for (std::int64_t i = 0; i < running; ++i) ++lengths[static_cast<std::size_t>(i)];
  }
  Tensor padded =
      rows_at(lengthened(stack(rows), std::max(steps, options.total_length), options.padding_value),
              sequence.unsorted_indices, 1);
  if (!sequence.unsorted_indices.empty()) {
    const std::vector<std::int64_t> sorted = lengths;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = sorted[static_cast<std::size_t>(sequence.unsorted_indices[i])];
    }
  }
  return {options.batch_first ? padded.transpose(0, 1) : padded, lengths};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, PadOptions options) {
  DL_CHECK(!sequences.empty(), kInvalidArgument, "pad_sequence: there are no sequences");
  std::int64_t length = options.total_length;
  for (const Tensor& sequence : sequences) {
    DL_CHECK(sequence.defined() && sequence.dim() >= 1, kShape,
             "pad_sequence: a sequence has no steps");
    length = std::max(length, sequence.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& sequence : sequences) {
    padded.push_back(lengthened(sequence, length, options.padding_value));
  }
  return stack(padded, options.batch_first ? 0 : 1);
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  std::vector<std::int64_t> lengths;
  const Tensor padded = pad_sequence(sequences);
  for (const Tensor& sequence : sequences) lengths.push_back(sequence.size(0));
  return pack_padded_sequence(padded, lengths, {.enforce_sorted = enforce_sorted});
}

}  // namespace utils::rnn
}  // namespace dl::nn
