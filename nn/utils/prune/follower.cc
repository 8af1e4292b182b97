#include "nn/utils/prune/follower.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/elementwise/list.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/layout/shape.h"

namespace dl::nn::utils::prune::detail {

Follower::Follower(Module& network, const Tensor& sample) : trace_(network, sample) {
  blocks_.resize(trace_.block_count());
  filters_.resize(trace_.tensors().size());
  for (const auto& step : trace_.steps()) follow(*step);
  find_what_is_not_zero();
  const Operand& result = trace_.steps().back()->operands()[0];
  for (const Label label : labels_of(result)) {
    sets_.keep(label, "it is a part of the network's output");
  }
}

const std::vector<Label>* Follower::elements(std::size_t tensor) const {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (trace_.tensor_in(static_cast<std::int64_t>(b)) == static_cast<std::int64_t>(tensor) &&
        !blocks_[b].labels.empty()) {
      return &blocks_[b].labels;
    }
  }
  return nullptr;
}

Label* Follower::labels(const Operand& operand) {
  Memory& memory = memory_of(operand);
  if (memory.labels.empty()) {
    const std::size_t count = trace_.block(operand.block).bytes / size_of(operand.dtype);
    memory.labels.assign(count, trace_.is_sample(operand.block) ? kData : kConstant);
    if (trace_.tensor_in(operand.block) >= 0) {
      for (Label& each : memory.labels) each = sets_.add(/*is_free=*/true);
    }
  }
  return memory.labels.data();
}

std::vector<Label> Follower::labels_of(const Operand& operand) {
  const Label* const all = labels(operand);
  std::vector<Label> result;
  for (const std::int64_t place : places_of(operand, operand.sizes)) {
    result.push_back(sets_.find(all[place]));
  }
  return result;
}

void Follower::write(const Operand& operand, const std::vector<Label>& values,
                     const std::string& writer) {
  Label* const all = labels(operand);
  const std::vector<std::int64_t> places = places_of(operand, operand.sizes);
  for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = values[i];
  memory_of(operand).writer = writer;
}

void Follower::follow(const Step& step) {
  const std::string_view kernel = step.kernel();
  if (kernel == "copy" || kernel == "unary") {
    follow_elementwise(step, 1);
  } else if (kernel == "binary" || kernel == "mask_scale") {
    follow_elementwise(step, 2);
  } else if (kernel == "ternary") {
    follow_elementwise(step, 3);
  } else if (kernel == "fill") {
    const Operand& target = step.operands()[0];
    write(target, std::vector<Label>(static_cast<std::size_t>(target.numel), kConstant),
          step.name());
  } else if (kernel == "reduce" || kernel == "extreme") {
    follow_reduction(step);
  } else if (kernel == "max_pool2d" || kernel == "taps2d") {
    follow_planes(step, 1);
  } else if (kernel == "batch_norm") {
    follow_norm(step);
  } else if (kernel == "conv2d") {
    follow_filters(step, 3);
  } else if (kernel == "linear") {
    follow_filters(step, 4);
  } else {
    give_up(step);
  }
}

// The elements of a parameter that no step has read before, and that must stay together, are one
// set: a table of embeddings has millions.
void Follower::keep_all(const Operand& operand, const std::string& why) {
  Memory& memory = memory_of(operand);
  const std::size_t count = trace_.block(operand.block).bytes / size_of(operand.dtype);
  const bool is_whole = static_cast<std::size_t>(operand.numel) == count;
  if (memory.labels.empty() && is_whole && trace_.tensor_in(operand.block) >= 0) {
    memory.labels.assign(count, sets_.add(/*is_free=*/true));
    sets_.keep(memory.labels.front(), why);
    return;
  }
  for (const Label label : labels_of(operand)) sets_.keep(label, why);
}

// All channels that the step reads must stay.
void Follower::give_up(const Step& step) {
  const std::string name =
      step.kernel() == "conv2d_backward_data" ? "conv_transpose2d" : step.name();
  for (const Operand& operand : step.operands()) {
    if (operand.block == Operand::kUndefined) continue;
    keep_all(operand, name + " reads it");
  }
  for (std::size_t i = 0; i < step.operands().size(); ++i) {
    const Operand& operand = step.operands()[i];
    if (operand.block == Operand::kUndefined || !step.changes(i)) continue;
    write(operand, std::vector<Label>(static_cast<std::size_t>(operand.numel), kData), name);
  }
}

// Each element of the last operand is made of one element of each input. An element of a parameter
// that meets one channel alone belongs to it; one that meets several belongs to none.
void Follower::follow_elementwise(const Step& step, std::size_t inputs) {
  const Operand& out = step.operands().back();
  const auto count = static_cast<std::size_t>(out.numel);
  std::vector<std::vector<Label>> read(inputs);
  for (std::size_t k = 0; k < inputs; ++k) {
    const Operand& input = step.operands()[k];
    const Label* const all = labels(input);
    for (const std::int64_t place : places_of(input, out.sizes)) {
      read[k].push_back(sets_.find(all[place]));
    }
  }
  std::unordered_map<Label, Label> partner;  // of free ones; kData: several, or data
  const auto meets = [&](Label label, Label other) {
    if (!sets_.is_free(label) || other == kConstant || other == label) return;
    const auto [found, is_new] = partner.emplace(label, other);
    if (!is_new && found->second != other) found->second = kData;
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) {
      for (std::size_t l = 0; l < inputs; ++l) meets(read[k][i], read[l][i]);
    }
  }
  for (const auto& [label, other] : partner) {
    if (other == kData) sets_.keep(label, step.name() + " uses its parameter elsewhere, too");
  }
  const auto is_shared = [&](Label label) {
    const auto found = partner.find(label);
    return found != partner.end() && found->second == kData;
  };
  using kernels::BinaryFn;
  const auto* const binary = step.argument<BinaryFn>();
  const bool is_product =
      binary != nullptr && (*binary == BinaryFn::kMul || *binary == BinaryFn::kDiv);
  std::vector<Label> made(count, kConstant);
  for (std::size_t i = 0; i < count; ++i) {
    Label result = kConstant;
    bool has_data = false;
    for (std::size_t k = 0; k < inputs; ++k) {
      const Label label = read[k][i];
      has_data = has_data || label == kData;
      if (label < kFirst || is_shared(label)) continue;
      result = result == kConstant ? label : sets_.unite(result, label);
    }
    if (has_data && result >= kFirst && !is_product) {
      sets_.keep(result, step.name() + " combines it with data of no channel");
    }
    made[i] = result != kConstant ? result : has_data ? kData : kConstant;
  }
  write(out, made, step.kernel() == "copy" ? memory_of(step.operands()[0]).writer : step.name());
}

// Two labels of elements that `reader` combines, or treats alike.
Label Follower::joined(Label a, Label b, const std::string& reader) {
  a = sets_.find(a);
  b = sets_.find(b);
  if (a == b) return a;
  if (a == kConstant || (sets_.is_free(a) && b >= kData)) return b;
  if (b == kConstant || (sets_.is_free(b) && a >= kData)) return a;
  if (a != kData && b != kData) return sets_.unite(a, b);
  sets_.keep(a == kData ? b : a, reader + " combines it with data of no channel");
  return kData;
}

// Sums and extremes within a channel. A mean over channels would change with their number.
void Follower::follow_reduction(const Step& step) {
  const Operand& input = step.operands()[0];
  const Operand& out = step.operands()[1];
  std::vector<Label> made(static_cast<std::size_t>(out.numel), kConstant);
  std::vector<bool> seen(made.size(), false);
  // The number of the result's element, for each input element.
  Operand numbers = out;
  numbers.first = 0;
  numbers.strides = contiguous_strides(out.sizes);
  const std::vector<std::int64_t> results = places_of(numbers, input.sizes);
  const std::vector<Label> read = labels_of(input);
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto at = static_cast<std::size_t>(results[i]);
    const Label before = sets_.find(made[at]);
    const Label label = sets_.is_free(read[i]) ? kConstant : sets_.find(read[i]);
    if (seen[at] && before != label && before >= kFirst && label >= kFirst) {
      sets_.keep(before, step.name() + " combines it with other channels");
      sets_.keep(label, step.name() + " combines it with other channels");
      made[at] = kData;
    } else {
      made[at] = joined(before, label, step.name());
    }
    seen[at] = true;
  }
  for (std::size_t i = 1; i < step.operands().size(); ++i) {
    write(step.operands()[i], made, memory_of(input).writer);
  }
}

// The label of each index along dimension 1: of the planes of images, or of the columns of a
// matrix. Channels that share a plane become one.
std::vector<Label> Follower::lines_of(const Operand& x, const std::string& reader) {
  const std::vector<Label> all = labels_of(x);
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < x.sizes.size(); ++d) inner *= x.sizes[d];
  const std::int64_t count = x.sizes[1];
  std::vector<Label> lines(static_cast<std::size_t>(count), kConstant);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto line = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % count);
    lines[line] = joined(lines[line], all[i], reader);
  }
  for (Label& line : lines) {
    line = sets_.find(line);
    if (sets_.is_free(line)) line = kConstant;
  }
  return lines;
}

void Follower::write_lines(const Operand& y, const std::vector<Label>& lines,
                           const std::string& writer) {
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < y.sizes.size(); ++d) inner *= y.sizes[d];
  std::vector<Label> made(static_cast<std::size_t>(y.numel));
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = lines[static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % y.sizes[1])];
  }
  write(y, made, writer);
}

// Pooling and resampling.
void Follower::follow_planes(const Step& step, std::size_t output) {
  const std::vector<Label> lines = lines_of(step.operands()[0], step.name());
  for (std::size_t i = output; i < step.operands().size(); ++i) {
    write_lines(step.operands()[i], lines, memory_of(step.operands()[0]).writer);
  }
}

// Element i of a vector of parameters belongs to channel i.
void Follower::bind(const Operand& vector, const std::vector<Label>& lines,
                    const std::string& reader) {
  if (vector.block == Operand::kUndefined) return;
  const std::vector<Label> elements = labels_of(vector);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!sets_.is_channel(sets_.find(lines[i]))) continue;
    if (elements[i] >= kFirst) {
      sets_.unite(lines[i], elements[i]);
    } else if (elements[i] == kData) {
      sets_.keep(lines[i], reader + " combines it with data of no channel");
    }
  }
}

void Follower::follow_norm(const Step& step) {
  const std::vector<Label> lines = lines_of(step.operands()[0], step.name());
  for (std::size_t i = 1; i <= 4; ++i) bind(step.operands()[i], lines, step.name());
  write_lines(step.operands()[5], lines, step.name());
}

// The filters of a weight that a layer reads as a whole, or through a view that keeps the first two
// dimensions; null: another tensor.
Follower::Filters* Follower::filters_in(const Operand& weight) {
  const std::int64_t number = trace_.tensor_in(weight.block);
  if (number < 0) return nullptr;
  const Tensor& tensor = trace_.tensors()[static_cast<std::size_t>(number)].value;
  const bool is_whole =
      tensor.dim() >= 2 && tensor.numel() == weight.numel && tensor.is_contiguous() &&
      is_contiguous(weight.sizes, weight.strides) && tensor.size(0) == weight.sizes[0] &&
      tensor.size(1) == weight.sizes[1] &&
      weight.first == tensor.storage_offset() * static_cast<std::int64_t>(size_of(weight.dtype));
  if (!is_whole) return nullptr;
  Filters& filters = filters_[static_cast<std::size_t>(number)];
  if (filters.rows.empty()) {
    for (std::int64_t i = 0; i < weight.sizes[0]; ++i) {
      filters.rows.push_back(sets_.add(/*is_free=*/false));
    }
    filters.columns.assign(static_cast<std::size_t>(weight.sizes[1]), kConstant);
  }
  return &filters;
}

// A layer counts on zeros in a masked channel, and not each operation makes zeros of zeros. So the
// pass runs with all channels masked.
void Follower::find_what_is_not_zero() {
  mask_all();
  for (const auto& step : trace_.steps()) {
    step->run();
    const auto found = readings_.find(step.get());
    if (found != readings_.end()) require_zeros(found->second);
  }
}

void Follower::mask_all() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const std::int64_t tensor = trace_.tensor_in(static_cast<std::int64_t>(b));
    if (tensor < 0) continue;
    const OfModule& of = trace_.tensors()[static_cast<std::size_t>(tensor)];
    if (!of.is_parameter) continue;
    const Tensor memory = trace_.memory(static_cast<std::int64_t>(b), of.value.dtype());
    auto* const bytes = static_cast<std::byte*>(memory.data_ptr());
    if (!filters_[static_cast<std::size_t>(tensor)].rows.empty()) {
      std::memset(bytes, 0, memory.nbytes());
    }
    const std::size_t size = size_of(memory.dtype());
    for (std::size_t i = 0; i < blocks_[b].labels.size(); ++i) {
      if (sets_.is_channel(sets_.find(blocks_[b].labels[i]))) {
        std::memset(bytes + i * size, 0, size);
      }
    }
  }
}

void Follower::require_zeros(const Reading& reading) {
  const Tensor& x = reading.x->bound;
  Dims others;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) others.push_back(d);
  }
  const Tensor largest = amax(abs(x.to(DType::kF64)), others).contiguous();
  for (std::size_t i = 0; i < reading.lines.size(); ++i) {
    if (largest.data<double>()[i] == 0) continue;
    sets_.keep(reading.lines[i], "a channel of zeros is not 0 after " + reading.writer);
  }
}

void Follower::follow_filters(const Step& step, std::size_t output) {
  const Operand& x = step.operands()[0];
  const Operand& weight = step.operands()[1];
  const Operand& y = step.operands()[output];
  Filters* const filters = filters_in(weight);
  if (filters == nullptr) return give_up(step);
  std::vector<Label> lines = lines_of(x, step.name());
  readings_.insert({&step, {&x, lines, memory_of(x).writer}});
  std::vector<Label>& rows = filters->rows;
  const std::int64_t columns = weight.sizes[1];
  const std::int64_t groups = x.sizes[1] / columns;
  const std::int64_t rows_a_group = weight.sizes[0] / groups;
  if (groups > 1 && columns == 1) {
    // Each channel has filters of its own, which go with it.
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Label line = lines[r / static_cast<std::size_t>(rows_a_group)];
      if (sets_.find(line) >= kFirst) {
        sets_.unite(rows[r], line);
      } else {
        sets_.keep(rows[r], step.name() + " has a group for each channel, and its input has none");
      }
    }
  } else {
    // All groups lose channels in the same places.
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t c = 0; c < columns; ++c) {
        Label& column = filters->columns[static_cast<std::size_t>(c)];
        const Label line = lines[static_cast<std::size_t>(g * columns + c)];
        column = g == 0 && column == kConstant ? line : joined(column, line, step.name());
      }
      for (std::int64_t r = 0; r < rows_a_group; ++r) {
        sets_.unite(rows[static_cast<std::size_t>(r)],
                    rows[static_cast<std::size_t>(g * rows_a_group + r)]);
      }
    }
  }
  bind(step.operands()[2], rows, step.name());
  write_lines(y, rows, step.name());
}

}  // namespace dl::nn::utils::prune::detail
