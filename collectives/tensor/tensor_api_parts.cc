// The functions of tensor_api.h with roots and parts.
#include <vector>

#include "collectives/tensor/tensor_api.h"
#include "collectives/tensor/tensor_checks.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

std::size_t row_elements(const Tensor& tensor) {
  std::size_t elements = 1;
  for (std::int64_t d = 1; d < tensor.dim(); ++d) {
    elements *= static_cast<std::size_t>(tensor.size(d));
  }
  return elements;
}

// Converts rows to elements. Throws unless `tensor` has as many rows as `rows` has in all.
std::vector<std::size_t> counts_of(std::string_view operation, std::string_view what,
                                   const Tensor& tensor, Rows rows) {
  check_one(operation, what, tensor);
  DL_CHECK(tensor.dim() > 0, kShape, "{}: {} has no dimension 0 to cut into rows", operation, what);
  const std::size_t width = row_elements(tensor);
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (const std::size_t count : rows) {
    counts.push_back(count * width);
    total += count;
  }
  DL_CHECK(total == static_cast<std::size_t>(tensor.size(0)), kShape,
           "{}: {} has {} rows, its parts have {} in all", operation, what, tensor.size(0), total);
  return counts;
}

// Throws unless `part`, which is this rank's, has as many elements as its count.
void check_part(std::string_view operation, std::string_view what, const Tensor& part,
                std::span<const std::size_t> counts, int rank, DType dtype) {
  check_one(operation, what, part);
  DL_CHECK(part.dtype() == dtype, kDType, "{}: {} is {}, the whole is {}", operation, what,
           name_of(part.dtype()), name_of(dtype));
  const auto own = static_cast<std::size_t>(rank);
  DL_CHECK(own < counts.size() && count_of(part) == counts[own], kShape,
           "{}: {} has {} elements, rank {}'s part has {}", operation, what, part.numel(), rank,
           own < counts.size() ? counts[own] : 0);
}

CallOptions holding_both(const CallOptions& call, const Tensor& a, const Tensor& b) {
  // One of them may be undefined on ranks other than the root.
  return holding(call, b.defined() ? b : a, hold({a, b}));
}

}  // namespace

Ref<Work> reduce(ProcessGroup& group, const Tensor& tensor, const TensorRootedReduceOptions& o) {
  check_one("reduce", "tensor", tensor);
  const bool is_root = group.rank() == o.root;
  if (is_root) tensor.bump_version();
  return group.reduce({.input = tensor.data_ptr(),
                       .output = is_root ? tensor.data_ptr() : nullptr,
                       .count = count_of(tensor),
                       .dtype = tensor.dtype(),
                       .op = o.op,
                       .root = o.root,
                       .call = holding(o.call, tensor, tensor.storage())});
}

Ref<Work> gather(ProcessGroup& group, const Tensor& output, const Tensor& input,
                 const TensorRootOptions& o) {
  check_one("gather", "input", input);
  const bool is_root = group.rank() == o.root;
  if (is_root) {
    check_pair("gather", "output", output, "input", input, group.size());
    output.bump_version();
  }
  return group.gather({.input = input.data_ptr(),
                       .output = is_root ? output.data_ptr() : nullptr,
                       .count = count_of(input),
                       .dtype = input.dtype(),
                       .root = o.root,
                       .call = holding_both(o.call, output, input)});
}

Ref<Work> scatter(ProcessGroup& group, const Tensor& output, const Tensor& input,
                  const TensorRootOptions& o) {
  check_one("scatter", "output", output);
  const bool is_root = group.rank() == o.root;
  if (is_root) check_pair("scatter", "input", input, "output", output, group.size());
  output.bump_version();
  return group.scatter({.input = is_root ? input.data_ptr() : nullptr,
                        .output = output.data_ptr(),
                        .count = count_of(output),
                        .dtype = output.dtype(),
                        .root = o.root,
                        .call = holding_both(o.call, output, input)});
}

Ref<Work> all_to_all(ProcessGroup& group, const Tensor& output, const Tensor& input,
                     const CallOptions& call) {
  check_pair("all_to_all", "output", output, "input", input, 1);
  const auto size = static_cast<std::size_t>(group.size());
  DL_CHECK(count_of(input) % size == 0, kShape,
           "all_to_all: input has {} elements, which {} ranks cannot share evenly; use all_to_allv",
           input.numel(), size);
  output.bump_version();
  return group.all_to_all({.input = input.data_ptr(),
                           .output = output.data_ptr(),
                           .count = count_of(input) / size,
                           .dtype = input.dtype(),
                           .call = holding_both(call, output, input)});
}

Ref<Work> all_gatherv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                      const CallOptions& call) {
  const std::vector<std::size_t> counts = counts_of("all_gatherv", "output", output, rows);
  check_part("all_gatherv", "input", input, counts, group.rank(), output.dtype());
  output.bump_version();
  return group.all_gatherv({.input = input.data_ptr(),
                            .output = output.data_ptr(),
                            .counts = counts,
                            .dtype = input.dtype(),
                            .call = holding_both(call, output, input)});
}

Ref<Work> reduce_scatterv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                          const TensorReduceOptions& o) {
  const std::vector<std::size_t> counts = counts_of("reduce_scatterv", "input", input, rows);
  check_part("reduce_scatterv", "output", output, counts, group.rank(), input.dtype());
  output.bump_version();
  return group.reduce_scatterv({.input = input.data_ptr(),
                                .output = output.data_ptr(),
                                .counts = counts,
                                .dtype = input.dtype(),
                                .op = o.op,
                                .call = holding_both(o.call, output, input)});
}

Ref<Work> gatherv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                  const TensorRootOptions& o) {
  check_one("gatherv", "input", input);
  std::vector<std::size_t> counts;
  const bool is_root = group.rank() == o.root;
  if (is_root) {
    counts = counts_of("gatherv", "output", output, rows);
    check_part("gatherv", "input", input, counts, group.rank(), output.dtype());
    output.bump_version();
  }
  return group.gatherv({.input = input.data_ptr(),
                        .count = count_of(input),
                        .output = is_root ? output.data_ptr() : nullptr,
                        .counts = counts,
                        .dtype = input.dtype(),
                        .root = o.root,
                        .call = holding_both(o.call, output, input)});
}

Ref<Work> scatterv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                   const TensorRootOptions& o) {
  check_one("scatterv", "output", output);
  std::vector<std::size_t> counts;
  const bool is_root = group.rank() == o.root;
  if (is_root) {
    counts = counts_of("scatterv", "input", input, rows);
    check_part("scatterv", "output", output, counts, group.rank(), input.dtype());
  }
  output.bump_version();
  return group.scatterv({.input = is_root ? input.data_ptr() : nullptr,
                         .counts = counts,
                         .output = output.data_ptr(),
                         .count = count_of(output),
                         .dtype = output.dtype(),
                         .root = o.root,
                         .call = holding_both(o.call, output, input)});
}

Ref<Work> all_to_allv(ProcessGroup& group, const Tensor& output, Rows receive_rows,
                      const Tensor& input, Rows send_rows, const CallOptions& call) {
  const std::vector<std::size_t> receive = counts_of("all_to_allv", "output", output, receive_rows);
  const std::vector<std::size_t> send = counts_of("all_to_allv", "input", input, send_rows);
  DL_CHECK(output.dtype() == input.dtype(), kDType, "all_to_allv: output is {}, input is {}",
           name_of(output.dtype()), name_of(input.dtype()));
  output.bump_version();
  return group.all_to_allv({.input = input.data_ptr(),
                            .send_counts = send,
                            .output = output.data_ptr(),
                            .receive_counts = receive,
                            .dtype = input.dtype(),
                            .call = holding_both(call, output, input)});
}

}  // namespace dl::collectives
