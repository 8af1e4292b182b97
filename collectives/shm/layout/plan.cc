#include "collectives/shm/layout/plan.h"

#include <algorithm>

#include "collectives/shm/layout/constants.h"

namespace dl::collectives::shm {
namespace {

std::size_t round_up(std::size_t n, std::size_t step) noexcept {
  return (n + step - 1) / step * step;
}

bool flows_one_way(OpKind op) noexcept {
  return op == OpKind::kBroadcast || op == OpKind::kScatter || op == OpKind::kGather;
}

}  // namespace

std::string_view name_of(Path path) noexcept {
  constexpr std::string_view kNames[kPathCount] = {"inline", "exchange", "staged", "symmetric"};
  return kNames[static_cast<std::size_t>(path)];
}

Parts::Parts(const PartsView& parts) : count_(parts.count()), step_(parts.step()) {
  if (parts.counts().empty()) return;
  offsets_.reserve(parts.counts().size() + 1);
  offsets_.push_back(0);
  for (const std::size_t count : parts.counts()) {
    offsets_.push_back(offsets_.back() + count);
    count_ = std::max(count_, count);
  }
}

std::size_t parts_of(OpKind op, int size) noexcept {
  return row_of(op).input == Side::kEach ? static_cast<std::size_t>(size) : 1;
}

Plan make_plan(const Descriptor& what, std::size_t longest, int size,
               bool is_oversubscribed) noexcept {
  const OpKind kind = row_of(what.op).fixed_count;
  const bool is_v_variant = kind != what.op;
  const std::size_t element = size_of(what.dtype);
  const std::size_t parts = parts_of(kind, size);
  const std::size_t bytes = longest * element * parts;
  const bool sums_all = kind == OpKind::kAllReduce || kind == OpKind::kReduce;
  if (bytes <= (sums_all ? kInlineSumBytes : kInlineBytes) && !is_v_variant) {
    return {.payload = bytes};
  }
  if (sums_all && bytes <= (is_oversubscribed ? kOversubscribedExchangeBytes : kExchangeBytes)) {
    return {.path = Path::kExchange, .chunk = longest, .chunks = 1};
  }
  const std::size_t line = kLineBytes / element;
  std::size_t most = kSlotBytes / element / parts / line * line;
  if (flows_one_way(kind) && !is_oversubscribed) {
    const std::size_t least = std::max(kOneWayChunkBytes / element / parts / line * line, line);
    // For a v-variant this rank does not know the other ranks' counts, so it must not choose by its
    // own.
    const std::size_t wanted = is_v_variant ? 0 : round_up(longest / kOneWayChunks, line);
    most = std::clamp(wanted, std::min(least, most), most);
  }
  if (is_v_variant) {
    return {.path = Path::kChunks,
            .chunk = most,
            .chunks = std::max<std::size_t>(1, (longest + most - 1) / most)};
  }
  // Even chunks: a short last chunk costs as many waits as a long one.
  const std::size_t least_chunks = (longest + most - 1) / most;
  const std::size_t chunk =
      std::min(round_up((longest + least_chunks - 1) / least_chunks, line), most);
  return {.path = Path::kChunks, .chunk = chunk, .chunks = (longest + chunk - 1) / chunk};
}

Range slice_of(std::size_t elements, std::size_t element_bytes, int rank, int size) noexcept {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t each = round_up((elements + ranks - 1) / ranks,
                                    std::max(kLineBytes / element_bytes, std::size_t{1}));
  const std::size_t begin = std::min(elements, each * static_cast<std::size_t>(rank));
  return {begin, std::min(elements, begin + each)};
}

}  // namespace dl::collectives::shm
