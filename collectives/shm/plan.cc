#include "collectives/shm/plan.h"

#include <algorithm>

#include "collectives/shm/constants.h"

namespace dl::collectives::shm {
namespace {

std::size_t round_up(std::size_t n, std::size_t step) noexcept {
  return (n + step - 1) / step * step;
}

}  // namespace

std::string_view name_of(Path path) noexcept {
  constexpr std::string_view kNames[kPathCount] = {"inline", "exchange", "staged", "symmetric"};
  return kNames[static_cast<std::size_t>(path)];
}

std::size_t parts_of(OpKind op, int size) noexcept {
  const bool has_many =
      op == OpKind::kReduceScatter || op == OpKind::kScatter || op == OpKind::kAllToAll;
  return has_many ? static_cast<std::size_t>(size) : 1;
}

Plan make_plan(const Descriptor& what, int size, bool is_crowded) noexcept {
  const std::size_t element = size_of(what.dtype);
  const std::size_t parts = parts_of(what.op, size);
  const std::size_t bytes = what.count * element * parts;
  if (bytes <= kInlineBytes) return {};
  if ((what.op == OpKind::kAllReduce || what.op == OpKind::kReduce) &&
      bytes <= (is_crowded ? kCrowdedExchangeBytes : kExchangeBytes)) {
    return {.path = Path::kExchange, .chunk = what.count, .chunks = 1};
  }
  // Even chunks: a short one at the end costs as many waits as a long one.
  const std::size_t line = kLineBytes / element;
  const std::size_t most = kSlotBytes / element / parts / line * line;
  const std::size_t least_chunks = (what.count + most - 1) / most;
  const std::size_t chunk =
      std::min(round_up((what.count + least_chunks - 1) / least_chunks, line), most);
  return {.path = Path::kChunks, .chunk = chunk, .chunks = (what.count + chunk - 1) / chunk};
}

Range slice_of(std::size_t elements, std::size_t element_bytes, int rank, int size) noexcept {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t each = round_up((elements + ranks - 1) / ranks,
                                    std::max(kLineBytes / element_bytes, std::size_t{1}));
  const std::size_t begin = std::min(elements, each * static_cast<std::size_t>(rank));
  return {begin, std::min(elements, begin + each)};
}

}  // namespace dl::collectives::shm
