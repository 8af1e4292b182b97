// Labels: what each element of memory is part of, while a trace is followed (channels.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tape/step.h"
#include "core/tensor/layout/places.h"
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
    obstacles_.push_back(kNoObstacle);
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
    if (obstacles_[at(a)] == kNoObstacle) obstacles_[at(a)] = obstacles_[at(b)];
    return a;
  }
  // The first reason counts.
  void keep(Label label, const std::string& why) {
    const Label root = find(label);
    if (root < kFirst || obstacles_[at(root)] != kNoObstacle) return;
    const auto [found, is_new] = numbers_.try_emplace(why, static_cast<Obstacle>(texts_.size()));
    if (is_new) texts_.push_back(why);
    obstacles_[at(root)] = found->second;
  }
  // "": there is none.
  const std::string& obstacle(Label root) const {
    return texts_[static_cast<std::size_t>(obstacles_[at(root)])];
  }

 private:
  // The number of a text: a network's parameters have many sets, and few different texts.
  using Obstacle = std::int32_t;
  static constexpr Obstacle kNoObstacle = 0;

  static std::size_t at(Label label) { return static_cast<std::size_t>(label); }

  // kConstant and kData have places, too.
  std::vector<Label> parents_{kConstant, kData};
  std::vector<bool> free_{false, false};
  std::vector<Obstacle> obstacles_{kNoObstacle, kNoObstacle};
  std::vector<std::string> texts_{""};
  std::map<std::string, Obstacle> numbers_;
};

// The places of an operand's elements, in elements from the block's beginning, in row-major order
// of `shape`, to which the operand is broadcast.
inline std::vector<std::int64_t> places_of(const tape::Operand& operand, const Shape& shape) {
  return dl::places_of(operand.first / static_cast<std::int64_t>(size_of(operand.dtype)), shape,
                       broadcast_strides(operand.sizes, operand.strides, shape));
}

}  // namespace dl::nn::utils::prune::detail
