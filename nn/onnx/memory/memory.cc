#include "nn/onnx/memory/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "core/tensor/factories.h"
#include "core/tensor/tensor_impl.h"

namespace dl::onnx {
namespace {

constexpr std::string_view kChangesOlder =
    "it changes a parameter, a buffer or another tensor from before the call";

Region region_of(const tape::Operand& operand) {
  return {.first = operand.first / static_cast<std::int64_t>(size_of(operand.dtype)),
          .sizes = operand.sizes,
          .strides = operand.strides};
}

// A piece, or a part of it, as a value whose axes are the levels in `order`.
struct Part {
  Box box;
  Value value;
};

// The levels in the order in which the box's dimensions run through them, then all others.
std::vector<std::size_t> order_of(const Box& box) {
  std::vector<std::size_t> order;
  for (const auto& levels : box.dims) order.insert(order.end(), levels.begin(), levels.end());
  for (std::size_t i = 0; i < box.counts.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  return order;
}

Shape in_order(const std::vector<std::int64_t>& numbers, const std::vector<std::size_t>& order) {
  Shape result;
  for (const std::size_t i : order) result.push_back(numbers[i]);
  return result;
}

std::vector<std::size_t> places_in(const std::vector<std::size_t>& wanted,
                                   const std::vector<std::size_t>& order) {
  std::vector<std::size_t> places;
  for (const std::size_t i : wanted) {
    places.push_back(static_cast<std::size_t>(std::ranges::find(order, i) - order.begin()));
  }
  return places;
}

// Cuts digits [starts, starts + counts) of the box.
Value cut_digits(Builder& builder, const Value& value, const Box& from, const Box& part,
                 const std::vector<std::size_t>& order) {
  Dims starts;
  for (const std::size_t i : order) starts.push_back(part.starts[i] - from.starts[i]);
  return builder.slice(value, starts, in_order(part.counts, order));
}

// A value of the region, of which `box` has the digits, with the axes of `order`.
Value to_digits(Builder& builder, const Value& value, const Box& box,
                const std::vector<std::size_t>& order) {
  const std::vector<std::size_t> own = order_of(box);
  // Axes of one element may be anywhere.
  const auto moved = [&](std::vector<std::size_t> levels) {
    std::erase_if(levels, [&](std::size_t i) { return box.counts[i] == 1; });
    return levels;
  };
  if (moved(own) == moved(order)) return builder.reshape(value, in_order(box.counts, order));
  const Value split = builder.reshape(value, in_order(box.counts, own));
  return builder.transpose(split, places_in(order, own));
}

// Joins parts along one level if they are equal in all others and follow one another.
bool join_along(Builder& builder, std::vector<Part>& parts, std::size_t level, std::size_t axis) {
  std::ranges::stable_sort(parts, {}, [&](const Part& part) { return part.box.starts[level]; });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::size_t> run{i};
    Box whole = parts[i].box;
    for (std::size_t k = i + 1; k < parts.size(); ++k) {
      const Box& next = parts[k].box;
      bool fits = next.starts[level] == whole.starts[level] + whole.counts[level];
      for (std::size_t l = 0; fits && l < whole.starts.size(); ++l) {
        fits =
            l == level || (next.starts[l] == whole.starts[l] && next.counts[l] == whole.counts[l]);
      }
      if (!fits) continue;
      whole.counts[level] += next.counts[level];
      run.push_back(k);
    }
    if (run.size() == 1) continue;
    std::vector<Value> values;
    for (const std::size_t k : run) values.push_back(parts[k].value);
    parts[i] = {whole, builder.concat(values, axis)};
    for (std::size_t k = run.size(); k-- > 1;) {
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(run[k]));
    }
    return true;
  }
  return false;
}

// The region's shape; with `broadcasts`, dimensions of stride 0 keep the size 1.
Value as_region(Builder& builder, const Value& value, const Region& region, bool broadcasts) {
  Shape sizes = region.sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (region.strides[d] == 0) sizes[d] = 1;
  }
  const Value result = builder.reshape(value, sizes);
  return broadcasts ? result : builder.expand(result, region.sizes);
}

// From the axes of `order` to the region's dimensions.
Value from_digits(Builder& builder, const Value& value, const Box& box, const Region& region,
                  const std::vector<std::size_t>& order, bool broadcasts) {
  // Axes of one element may be anywhere, so only the others are moved.
  std::vector<std::size_t> wanted;
  for (const auto& levels : box.dims) wanted.insert(wanted.end(), levels.begin(), levels.end());
  std::vector<std::size_t> kept;
  std::ranges::copy_if(order, std::back_inserter(kept),
                       [&](std::size_t i) { return std::ranges::find(wanted, i) != wanted.end(); });
  const std::vector<std::size_t> moves = places_in(wanted, kept);
  Value result = value;
  if (!std::ranges::is_sorted(moves)) {
    result = builder.transpose(builder.reshape(value, in_order(box.counts, kept)), moves);
  }
  return as_region(builder, result, region, broadcasts);
}

}  // namespace

Memory::Memory(Builder& builder, const tape::Recording& recording,
               std::span<const nn::NamedTensor> tensors)
    : builder_(builder), recording_(recording), tensors_(tensors) {
  for (const auto& step : recording.steps) {
    const std::span<const tape::Operand> operands = std::as_const(*step).operands();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (step->changes(i)) changed_.insert(operands[i].block);
    }
  }
}

Memory::Pieces& Memory::pieces_of(const tape::Operand& operand) {
  const auto [found, is_new] = pieces_.try_emplace(operand.block);
  const tape::Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
  if (!is_new || !block.is_older) return found->second;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.storage().get() != block.storage.get()) continue;
    const Region region{tensor.storage_offset(), tensor.sizes(), tensor.strides()};
    found->second.push_back({region, builder_.parameter(name, tensor)});
  }
  return found->second;
}

Value Memory::constant(const tape::Operand& operand) {
  const tape::Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
  const Region region = region_of(operand);
  return builder_.constant(Tensor(make_ref<TensorImpl>(block.storage, region.sizes, region.strides,
                                                       region.first, operand.dtype)));
}

Value Memory::read(const tape::Operand& operand, bool broadcasts) {
  if (operand.numel == 0) return builder_.filled(operand.sizes, 0, operand.dtype);
  const Pieces& pieces = pieces_of(operand);
  const tape::Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
  if (pieces.empty() && (block.is_older || block.storage)) {
    const bool is_changed = changed_.contains(operand.block);
    DL_CHECK(!is_changed || !block.is_older, kNotImplemented, "{}", kChangesOlder);
    if (!is_changed) return constant(operand);
  }
  for (const Piece& piece : pieces) {
    DL_CHECK(piece.value.dtype == operand.dtype, kNotImplemented, "it reads memory of {} as {}",
             name_of(piece.value.dtype), name_of(operand.dtype));
  }
  return read_region(pieces, region_of(operand), broadcasts);
}

Value Memory::read_region(const Pieces& pieces, const Region& region, bool broadcasts) {
  std::vector<const Piece*> near;
  for (const Piece& piece : pieces) {
    if (piece.region.same_as(region)) return piece.value;
    if (piece.region.first < region.end() && region.first < piece.region.end()) {
      near.push_back(&piece);
    }
  }
  DL_CHECK(!near.empty(), kNotImplemented,
           "it reads a result that no operation of ONNX gives, such as saved statistics");
  const Region flat = united(region);
  std::vector<Region> regions{region};
  for (const Piece* piece : near) regions.push_back(united(piece->region));
  if (near.size() < 2 || flat.sizes.size() == region.sizes.size() || are_boxes(regions)) {
    return joined(near, region, broadcasts);
  }
  // Its dimensions cut the pieces, but not those of the same elements in fewer dimensions.
  return as_region(builder_, joined(near, flat, false), region, broadcasts);
}

Value Memory::joined(std::vector<const Piece*> pieces, const Region& region, bool broadcasts) {
  std::vector<Region> regions{region};
  for (const Piece* piece : pieces) regions.push_back(united(piece->region));
  const std::optional<Levels> levels = levels_of(regions);
  const std::optional<Box> whole = levels ? box_of(region, *levels) : std::nullopt;
  if (!whole) {
    DL_CHECK(pieces.size() == 1, kNotImplemented,
             "it reads elements of several tensors, in an order that no node of ONNX gives");
    return picked(*pieces.front(), region, broadcasts);
  }
  std::vector<Part> parts;
  std::vector<std::size_t> order;
  std::int64_t covered = 0;
  for (const Piece* piece : pieces) {
    const std::optional<Box> box = box_of(united(piece->region), *levels);
    if (!box) {
      DL_CHECK(pieces.size() == 1, kNotImplemented,
               "it reads elements of several tensors, in an order that no node of ONNX gives");
      return picked(*piece, region, broadcasts);
    }
    if (!box->meets(*whole)) continue;
    if (order.empty()) order = order_of(*box);
    Box common = box->common_with(*whole);
    const Value value = to_digits(builder_, piece->value, *box, order);
    parts.push_back({common, cut_digits(builder_, value, *box, common, order)});
    covered += std::accumulate(common.counts.begin(), common.counts.end(), std::int64_t{1},
                               std::multiplies<>());
  }
  const std::int64_t wanted = std::accumulate(whole->counts.begin(), whole->counts.end(),
                                              std::int64_t{1}, std::multiplies<>());
  DL_CHECK(covered == wanted, kNotImplemented,
           "it reads {} elements, of which {} are results of operations of ONNX", wanted, covered);
  bool is_joined = true;
  while (parts.size() > 1 && is_joined) {
    is_joined = false;
    for (std::size_t level = levels->size(); level-- > 0 && !is_joined;) {
      const std::size_t axis = places_in({level}, order).front();
      is_joined = join_along(builder_, parts, level, axis);
    }
  }
  DL_CHECK(parts.size() == 1, kNotImplemented,
           "it reads {} tensors as one, in an order that no Concat gives", parts.size());
  return from_digits(builder_, parts.front().value, *whole, region, order, broadcasts);
}

Value Memory::picked(const Piece& piece, const Region& region, bool broadcasts) {
  // The piece's digits at all levels of the region that divide it: a stride that is no multiple of
  // the next level steps along that level.
  const Region only[] = {united(piece.region)};
  std::optional<Levels> levels = levels_of(only);
  std::optional<Box> box = levels ? box_of(only[0], *levels) : std::nullopt;
  Piece digits = piece;
  if (box) {
    for (const std::int64_t stride : region.strides) {
      const bool is_known = stride == 0 || std::ranges::find(*levels, stride) != levels->end();
      Levels more = *levels;
      more.insert(std::ranges::upper_bound(more, stride, std::greater<>()), stride);
      const auto divides = [](std::int64_t a, std::int64_t b) { return a % b != 0; };
      if (is_known || std::ranges::adjacent_find(more, divides) != more.end()) continue;
      const std::optional<Box> finer = box_of(only[0], more);
      if (!finer) continue;
      levels = more;
      box = finer;
    }
    const std::vector<std::size_t> order = order_of(*box);
    digits = {{piece.region.first, in_order(box->counts, order), in_order(*levels, order)},
              to_digits(builder_, piece.value, *box, order)};
  }
  const std::optional<Value> value = by_steps(digits, region, broadcasts);
  return value ? *value : by_index(piece, region);
}

std::optional<Value> Memory::by_steps(const Piece& piece, const Region& region, bool broadcasts) {
  const Region& whole = piece.region;
  const std::size_t rank = whole.sizes.size();
  // The region's first element, dimension by dimension, the one of the largest stride first.
  std::vector<std::size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::ranges::stable_sort(dims, std::greater<>(), [&](std::size_t d) { return whole.strides[d]; });
  Dims starts(rank, 0);
  std::int64_t rest = region.first - whole.first;
  for (const std::size_t d : dims) {
    if (whole.sizes[d] == 1 || whole.strides[d] == 0) continue;
    starts[d] = rest / whole.strides[d];
    rest %= whole.strides[d];
  }
  if (rest != 0) return std::nullopt;
  // Each dimension of the region steps along the one of the piece with the largest stride that
  // fits.
  Dims counts(rank, 1);
  Dims steps(rank, 1);
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < region.sizes.size(); ++k) {
    if (region.sizes[k] == 1 || region.strides[k] == 0) continue;
    const auto fits = [&](std::size_t d) {
      return whole.sizes[d] > 1 && whole.strides[d] > 0 && counts[d] == 1 &&
             region.strides[k] % whole.strides[d] == 0;
    };
    const auto found = std::ranges::find_if(dims, fits);
    if (found == dims.end()) return std::nullopt;
    counts[*found] = region.sizes[k];
    steps[*found] = region.strides[k] / whole.strides[*found];
    order.push_back(*found);
  }
  Shape kept;
  std::vector<std::size_t> places;
  for (std::size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] + (counts[d] - 1) * steps[d] >= whole.sizes[d]) {
      return std::nullopt;
    }
    if (std::ranges::find(order, d) != order.end()) kept.push_back(counts[d]);
  }
  for (const std::size_t d : order) {
    places.push_back(static_cast<std::size_t>(
        std::ranges::count_if(order, [&](std::size_t other) { return other < d; })));
  }
  const Value sliced = builder_.slice(piece.value, starts, counts, steps);
  const Value turned = std::ranges::is_sorted(places)
                           ? sliced
                           : builder_.transpose(builder_.reshape(sliced, kept), places);
  return as_region(builder_, turned, region, broadcasts);
}

Value Memory::by_index(const Piece& piece, const Region& region) {
  const std::optional<Tensor> index = positions_in(piece.region, region);
  DL_CHECK(index, kNotImplemented, "it reads elements that no operation of ONNX gives");
  const Value flat = builder_.reshape(piece.value, {piece.region.numel()});
  return builder_.add("Gather", {flat.name, builder_.constant(*index).name}, region.sizes,
                      piece.value.dtype, {{"axis", std::int64_t{0}}});
}

void Memory::scatter(Piece& piece, const Region& region, const Value& value) {
  const std::optional<Tensor> index = positions_in(piece.region, region);
  DL_CHECK(index, kNotImplemented,
           "it writes into a part of a tensor that no node of ONNX can replace");
  const Shape line{region.numel()};
  const Value flat = builder_.reshape(piece.value, {piece.region.numel()});
  const Value places = builder_.constant(index->view(line));
  const Value result =
      builder_.add("ScatterElements", {flat.name, places.name, builder_.reshape(value, line).name},
                   flat.sizes, flat.dtype, {{"axis", std::int64_t{0}}});
  piece.value = builder_.reshape(result, piece.region.sizes);
}

void Memory::set_input(const tape::Operand& operand, const Value& value) {
  if (operand.numel == 0) return;
  pieces_[operand.block].push_back({region_of(operand), value});
}

bool Memory::pads(Piece& piece, const Region& region, const Value& value) {
  const Region& whole = piece.region;
  if (!piece.value.filled || whole.sizes.size() != region.sizes.size()) return false;
  Dims before(whole.sizes.size(), 0);
  Dims after = before;
  std::int64_t offset = region.first - whole.first;
  for (std::size_t d = 0; d < whole.sizes.size(); ++d) {
    if (whole.strides[d] != region.strides[d] || whole.strides[d] == 0) return false;
  }
  // From the largest stride to the smallest.
  std::vector<std::size_t> order(whole.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t d) { return whole.strides[d]; });
  for (const std::size_t d : order) {
    before[d] = offset / whole.strides[d];
    offset %= whole.strides[d];
    after[d] = whole.sizes[d] - region.sizes[d] - before[d];
    if (after[d] < 0) return false;
  }
  if (offset != 0) return false;
  Dims pads = before;
  for (const std::int64_t each : after) pads.push_back(each);
  const Scalar number = *piece.value.filled;
  piece.value = builder_.add(
      "Pad", {value.name, builder_.sizes(pads).name, builder_.number(number, value.dtype).name},
      whole.sizes, value.dtype, {{"mode", std::string("constant")}});
  return true;
}

void Memory::cut(const Piece& piece, const Box& box, const Box& hole, const Levels& levels,
                 Pieces& remaining) {
  const std::vector<std::size_t> order = order_of(box);
  const Value whole = to_digits(builder_, piece.value, box, order);
  const auto keep = [&](const Box& part) {
    Region region;
    for (std::size_t i = 0; i < levels.size(); ++i) region.first += part.starts[i] * levels[i];
    for (const std::size_t i : order) {
      region.sizes.push_back(part.counts[i]);
      region.strides.push_back(levels[i]);
    }
    remaining.push_back({region, cut_digits(builder_, whole, box, part, order)});
  };
  Box rest = box;  // what is left, level by level
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const std::int64_t end = rest.starts[i] + rest.counts[i];
    const std::int64_t hole_end = hole.starts[i] + hole.counts[i];
    Box part = rest;
    if (part.counts[i] = hole.starts[i] - rest.starts[i]; part.counts[i] > 0) keep(part);
    part.starts[i] = hole_end;
    if (part.counts[i] = end - hole_end; part.counts[i] > 0) keep(part);
    rest.starts[i] = hole.starts[i];
    rest.counts[i] = hole.counts[i];
  }
}

void Memory::write(const tape::Operand& operand, const Value& value) {
  if (operand.numel == 0) return;
  const tape::Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
  DL_CHECK(!block.is_older, kNotImplemented, "{}", kChangesOlder);
  const Value written = builder_.cast(value, operand.dtype);
  const Region region = region_of(operand);
  Pieces remaining;
  bool is_inside = false;
  for (Piece& piece : pieces_of(operand)) {
    const bool is_near = piece.region.first < region.end() && region.first < piece.region.end();
    if (is_near && piece.region.same_as(region)) continue;
    if (!is_near) {
      remaining.push_back(std::move(piece));
      continue;
    }
    const Region both[] = {united(piece.region), region};
    const std::optional<Levels> levels = levels_of(both);
    const std::optional<Box> old = levels ? box_of(both[0], *levels) : std::nullopt;
    const std::optional<Box> now = levels ? box_of(region, *levels) : std::nullopt;
    if (!old || !now) {
      scatter(piece, region, written);
      remaining.push_back(std::move(piece));
      is_inside = true;
    } else if (!old->meets(*now)) {
      remaining.push_back(std::move(piece));
    } else if (old->contains(*now) && pads(piece, region, written)) {
      remaining.push_back(std::move(piece));
      is_inside = true;
    } else {
      cut(piece, *old, old->common_with(*now), *levels, remaining);
    }
  }
  if (!is_inside) remaining.push_back({region, written});
  pieces_[operand.block] = std::move(remaining);
}

tape::Operand Memory::around(const tape::Operand& operand) {
  const Region region = region_of(operand);
  const Pieces& pieces = pieces_of(operand);
  tape::Operand result = operand;
  const auto size = static_cast<std::int64_t>(size_of(operand.dtype));
  result.strides = {1};
  const auto is_around = [&](const Piece& piece) {
    return piece.region.first <= region.first && region.end() <= piece.region.end() &&
           piece.region.end() - piece.region.first == piece.region.numel();
  };
  const auto found = std::ranges::find_if(pieces, is_around);
  if (found != pieces.end()) {
    result.first = found->region.first * size;
    result.numel = found->region.numel();
  } else {
    const tape::Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
    const bool is_constant = block.is_older || block.storage;
    DL_CHECK(pieces.empty() && is_constant && !changed_.contains(operand.block), kNotImplemented,
             "it reads elements of a tensor by index that several operations have given");
    result.first = 0;
    result.numel = static_cast<std::int64_t>(block.bytes) / size;
  }
  result.sizes = {result.numel};
  return result;
}

}  // namespace dl::onnx
