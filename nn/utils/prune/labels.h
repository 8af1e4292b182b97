// Labels: what each element of memory is part of, while a trace is followed (channels.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tape/step.h"
#include "core/tensor/layout/shape.h"

namespace dl::nn::utils::prune::detail {

// What an element of memory is part of: nothing, or, from kFirst on, a set.
using Label = std::int32_t;
inline constexpr Label kConstant = 0;  // the same for all inputs
inline constexpr Label kData = 1;      // depends on the input, but on no single channel
inline constexpr Label kFirst = 2;

// Sets of labels. A free one has only elements of a parameter, so far; it may turn out to belong to
// a channel, or to none.
class Sets {
 public:
  Label add(bool is_free) {
    const auto label = static_cast<Label>(parents_.size());
    parents_.push_back(label);
    free_.push_back(is_free);
    obstacles_.emplace_back();
    return label;
  }
  Label find(Label label) {
    if (label < kFirst) return label;
    while (parents_[at(label)] != label) {
      parents_[at(label)] = parents_[at(parents_[at(label)])];
      label = parents_[at(label)];
    }
    return label;
  }
  bool is_free(Label root) const { return root >= kFirst && free_[at(root)]; }
  bool is_channel(Label root) const { return root >= kFirst && !free_[at(root)]; }
  Label unite(Label a, Label b) {
    a = find(a);
    b = find(b);
    if (a == b) return a;
    if (b < a) std::swap(a, b);
    parents_[at(b)] = a;
    free_[at(a)] = free_[at(a)] && free_[at(b)];
    if (obstacles_[at(a)].empty()) obstacles_[at(a)] = std::move(obstacles_[at(b)]);
    return a;
  }
  // The first reason counts.
  void keep(Label label, const std::string& why) {
    const Label root = find(label);
    if (root >= kFirst && obstacles_[at(root)].empty()) obstacles_[at(root)] = why;
  }
  const std::string& obstacle(Label root) const { return obstacles_[at(root)]; }

 private:
  static std::size_t at(Label label) { return static_cast<std::size_t>(label); }

  // kConstant and kData have places, too.
  std::vector<Label> parents_{kConstant, kData};
  std::vector<bool> free_{false, false};
  std::vector<std::string> obstacles_{"", ""};
};

// The places of an operand's elements, in elements from the block's beginning, in row-major order
// of `shape`, to which the operand is broadcast.
inline std::vector<std::int64_t> places_of(const tape::Operand& operand, const Shape& shape) {
  const Strides strides = broadcast_strides(operand.sizes, operand.strides, shape);
  std::vector<std::int64_t> places{operand.first /
                                   static_cast<std::int64_t>(size_of(operand.dtype))};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    next.reserve(places.size() * static_cast<std::size_t>(shape[d]));
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < shape[d]; ++i) next.push_back(place + i * strides[d]);
    }
    places = std::move(next);
  }
  return places;
}

}  // namespace dl::nn::utils::prune::detail
