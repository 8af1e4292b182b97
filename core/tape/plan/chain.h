// Chains: steps of a recording that run together, part by part, so that what one writes is still in
// the cache when the next reads it.
//
// A chain is a kernel with PartHooks and the element-wise steps before and after it, or
// element-wise steps alone, each of which reads what an earlier one has written. Each element goes
// through the same operations in the same order as in single steps, so no bit differs. A member may
// change its place among the steps, but only past steps that have no tensors in common with it.
//
// One thread at a time; chains themselves run on all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/args/part_work.h"
#include "core/tape/recorder.h"
#include "core/tape/step.h"

namespace dl::tape {

// The numbers of steps, in order.
struct Chain {
  std::vector<std::size_t> before{};  // in the kernel's hook
  std::optional<std::size_t> kernel{};
  std::vector<std::size_t> after{};
  std::size_t place = 0;  // the step in whose place it runs, one of its own
  std::int64_t elements = 0;

  std::vector<std::size_t> members() const;
};

// No step is in two of them.
std::vector<Chain> find_chains(const Recording& recording);

// What runs as one: a chain, or a step.
class Link {
 public:
  explicit Link(Step& step) : name_(step.name()), step_(&step) {}
  // The steps' operands are bound, and stay. Until the end of the link's life, its kernel has
  // hooks.
  Link(const Chain& chain, const Recording& recording);
  Link(Link&&) = default;

  const std::string& name() const noexcept { return name_; }
  void run();

 private:
  std::string name_;  // "relu + batch_norm_backward"
  Step* step_ = nullptr;
  std::int64_t elements_ = 0;
  // Kernels hold their addresses.
  std::unique_ptr<PartWork> before_;
  std::unique_ptr<PartWork> after_;
};

}  // namespace dl::tape
