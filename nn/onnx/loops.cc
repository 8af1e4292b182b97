#include "nn/onnx/loops.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace dl::onnx {
namespace {

using Operands = std::vector<tape::Operand>;

// The bytes from each operand of `a` to that of `b`, if they differ in nothing else.
std::optional<std::vector<std::int64_t>> distances(const RecordedCall& a, const RecordedCall& b) {
  if (a.step->kernel() != "matmul_batch" || b.step->kernel() != a.step->kernel()) return {};
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    const tape::Operand& x = a.operands[i];
    const tape::Operand& y = b.operands[i];
    const bool alike = x.block == y.block && x.sizes == y.sizes && x.strides == y.strides &&
                       x.dtype == y.dtype && y.first >= x.first;
    if (!alike) return {};
    result.push_back(y.first - x.first);
  }
  return result;
}

// One pass over the calls; true if any became one.
bool unite(std::vector<RecordedCall>& calls) {
  std::vector<RecordedCall> result;
  for (std::size_t i = 0; i < calls.size();) {
    std::size_t end = i + 1;
    std::optional<std::vector<std::int64_t>> steps;
    if (end < calls.size()) steps = distances(calls[i], calls[end]);
    while (steps && end < calls.size() && distances(calls[end - 1], calls[end]) == steps) ++end;
    RecordedCall call = std::move(calls[i]);
    if (steps && end > i + 1) {
      const auto count = static_cast<std::int64_t>(end - i);
      for (std::size_t k = 0; k < call.operands.size(); ++k) {
        tape::Operand& operand = call.operands[k];
        operand.sizes.insert(0, count);
        operand.strides.insert(0, (*steps)[k] / static_cast<std::int64_t>(size_of(operand.dtype)));
        operand.numel *= count;
      }
    }
    result.push_back(std::move(call));
    i = end;
  }
  const bool is_shorter = result.size() < calls.size();
  calls = std::move(result);
  return is_shorter;
}

}  // namespace

std::vector<RecordedCall> without_loops(const tape::Recording& recording) {
  std::vector<RecordedCall> calls;
  for (const auto& step : recording.steps) {
    const std::span<const tape::Operand> operands = std::as_const(*step).operands();
    calls.push_back({step.get(), Operands(operands.begin(), operands.end())});
  }
  while (unite(calls)) {
  }
  return calls;
}

}  // namespace dl::onnx
