#include "nn/onnx/memory/region.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>

#include "core/tensor/factories.h"
#include "core/tensor/layout/places.h"

namespace dl::onnx {

std::int64_t Region::numel() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::int64_t Region::end() const noexcept {
  std::int64_t last = first;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return last + 1;
}

bool Region::same_as(const Region& other) const noexcept {
  if (first != other.first || sizes != other.sizes) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && strides[d] != other.strides[d]) return false;
  }
  return true;
}

Region united(const Region& region) {
  Region result{.first = region.first, .sizes = {}, .strides = {}};
  for (std::size_t d = 0; d < region.sizes.size(); ++d) {
    const std::int64_t size = region.sizes[d];
    const std::int64_t stride = region.strides[d];
    if (size == 1) continue;
    const std::size_t last = result.sizes.size();
    if (last > 0 && result.strides[last - 1] == size * stride) {
      result.sizes[last - 1] *= size;
      result.strides[last - 1] = stride;
    } else {
      result.sizes.push_back(size);
      result.strides.push_back(stride);
    }
  }
  return result;
}

std::optional<Levels> levels_of(std::span<const Region> regions) {
  std::set<std::int64_t, std::greater<>> strides;
  for (const Region& region : regions) {
    for (std::size_t d = 0; d < region.sizes.size(); ++d) {
      if (region.sizes[d] > 1 && region.strides[d] > 0) strides.insert(region.strides[d]);
    }
  }
  const auto needs_ones = [&](const Region& region) {
    return strides.empty() || region.first % *strides.rbegin() != 0;
  };
  if (std::ranges::any_of(regions, needs_ones)) strides.insert(1);
  Levels levels(strides.begin(), strides.end());
  for (std::size_t i = 1; i < levels.size(); ++i) {
    if (levels[i - 1] % levels[i] != 0) return std::nullopt;
  }
  return levels;
}

std::optional<Box> box_of(const Region& region, const Levels& levels) {
  Box box{.starts = {},
          .counts = std::vector<std::int64_t>(levels.size(), 1),
          .dims = std::vector<std::vector<std::size_t>>(region.sizes.size())};
  std::int64_t rest = region.first;
  for (const std::int64_t level : levels) {
    box.starts.push_back(rest / level);
    rest %= level;
  }
  if (rest != 0) return std::nullopt;
  for (std::size_t d = 0; d < region.sizes.size(); ++d) {
    std::int64_t size = region.sizes[d];
    if (size <= 1 || region.strides[d] == 0) continue;
    auto i =
        static_cast<std::size_t>(std::ranges::find(levels, region.strides[d]) - levels.begin());
    while (true) {
      if (box.counts[i] != 1) return std::nullopt;  // two dimensions use this digit
      const std::int64_t base =
          i == 0 ? std::numeric_limits<std::int64_t>::max() : levels[i - 1] / levels[i];
      box.dims[d].insert(box.dims[d].begin(), i);
      if (box.starts[i] + size <= base) {
        box.counts[i] = size;
        break;
      }
      if (box.starts[i] != 0 || size % base != 0) return std::nullopt;
      box.counts[i] = base;
      size /= base;
      --i;
      if (size == 1) break;
    }
  }
  return box;
}

bool are_boxes(std::span<const Region> regions) {
  const std::optional<Levels> levels = levels_of(regions);
  const auto is_box = [&](const Region& region) { return box_of(region, *levels).has_value(); };
  return levels && std::ranges::all_of(regions, is_box);
}

bool Box::meets(const Box& other) const noexcept {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] >= other.starts[i] + other.counts[i]) return false;
    if (other.starts[i] >= starts[i] + counts[i]) return false;
  }
  return true;
}

bool Box::contains(const Box& other) const noexcept {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (other.starts[i] < starts[i]) return false;
    if (other.starts[i] + other.counts[i] > starts[i] + counts[i]) return false;
  }
  return true;
}

Box Box::common_with(const Box& other) const {
  Box common;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t first = std::max(starts[i], other.starts[i]);
    const std::int64_t end = std::min(starts[i] + counts[i], other.starts[i] + other.counts[i]);
    common.starts.push_back(first);
    common.counts.push_back(end - first);
  }
  return common;
}

std::vector<std::int64_t> addresses_of(const Region& region) {
  return places_of(region.first, region.sizes, region.strides);
}

std::optional<Tensor> positions_in(const Region& whole, const Region& region) {
  std::unordered_map<std::int64_t, std::int64_t> positions;
  const std::vector<std::int64_t> there = addresses_of(whole);
  for (std::size_t i = 0; i < there.size(); ++i) {
    positions.emplace(there[i], static_cast<std::int64_t>(i));
  }
  const Tensor result = empty(region.sizes, {.dtype = DType::kI64});
  auto* next = result.data<std::int64_t>();
  for (const std::int64_t address : addresses_of(region)) {
    const auto found = positions.find(address);
    if (found == positions.end()) return std::nullopt;
    *next++ = found->second;
  }
  return result;
}

}  // namespace dl::onnx
