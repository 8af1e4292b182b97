#include "core/tape/plan/chain.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/device/parallel.h"
#include "core/tensor/layout/shape.h"

namespace dl::tape {
namespace {

// Elements of a part: those of four tensors in float32 are 64 KiB.
constexpr std::int64_t kPartElements = 4096;
constexpr std::int64_t kChainGrain = 32 * 1024;  // elements worth a thread

// Steps between two members that stay outside of the chain.
constexpr int kMostSkipped = 4;

bool is_shared(const Recording& recording, const Operand& operand) {
  return !recording.blocks[static_cast<std::size_t>(operand.block)].storage;
}

// Whether two steps may change places. Of opaque ones only the tensors are unknown: they do not
// touch the arena.
bool may_swap(const Recording& recording, const Step& a, const Step& b) {
  for (const Operand& operand : a.operands()) {
    if (operand.block == Operand::kUndefined) continue;
    if (b.is_opaque() && !is_shared(recording, operand)) return false;
    for (std::size_t i = 0; i < b.operands().size(); ++i) {
      if (b.operands()[i].block == operand.block) return false;
    }
  }
  return true;
}

// The memory that the members of a chain touch. Parts of different members may run in any order, so
// a block that two members touch has to be the same elements to both.
class Extent {
 public:
  Extent(const Recording& recording, std::int64_t elements)
      : recording_(recording), elements_(elements) {}

  // False if it does not fit; then nothing is added.
  bool add(const Step& step) {
    const std::span<const Operand> operands = step.operands();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!fits(operands[i], step.changes(i))) return false;
    }
    for (const Operand& operand : operands) {
      if (operand.numel == elements_) {
        dense_.emplace(operand.block, &operand);
      } else {
        scalars_.insert(operand.block);
      }
    }
    return true;
  }
  bool add_kernel(const Step& kernel) {
    const PartOperands& parts = kernel.parts();
    const std::span<const Operand> operands = kernel.operands();
    for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
      const Operand& operand = operands[static_cast<std::size_t>(i)];
      if (operand.block == Operand::kUndefined) continue;
      if (i != parts.read && i != parts.also_read && i != parts.written) {
        others_.insert(operand.block);
        continue;
      }
      if (operand.numel != elements_ || !is_dense(operand.sizes, operand.strides)) return false;
      const auto [place, is_new] = dense_.emplace(operand.block, &operand);
      if (!is_new && !same_elements(*place->second, operand)) return false;
    }
    return std::ranges::none_of(dense_,
                                [&](const auto& each) { return others_.contains(each.first); });
  }

 private:
  static bool same_elements(const Operand& a, const Operand& b) {
    return a.first == b.first && a.dtype == b.dtype;
  }
  bool fits(const Operand& operand, bool changes) const {
    if (operand.block == Operand::kUndefined || others_.contains(operand.block)) return false;
    const auto found = dense_.find(operand.block);
    if (operand.numel != elements_) return operand.numel == 1 && found == dense_.end();
    if (scalars_.contains(operand.block) || (changes && !is_shared(recording_, operand))) {
      return false;
    }
    return found == dense_.end() || same_elements(*found->second, operand);
  }

  const Recording& recording_;
  std::int64_t elements_;
  std::map<std::int64_t, const Operand*> dense_;  // by block
  std::set<std::int64_t> scalars_;                // blocks of one element for all parts
  std::set<std::int64_t> others_;                 // blocks of the kernel's further operands
};

class Finder {
 public:
  explicit Finder(const Recording& recording)
      : recording_(recording), used_(recording.steps.size()) {}

  std::vector<Chain> find() {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (step(i).parts().written != PartOperands::kNone) add(around(i));
    }
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i] && step(i).is_elementwise()) add(from(i));
    }
    return std::move(chains_);
  }

 private:
  const Step& step(std::size_t i) const { return *recording_.steps[i]; }

  void add(Chain chain) {
    const std::vector<std::size_t> members = chain.members();
    if (members.size() < 2) return;
    for (const std::size_t i : members) used_[i] = true;
    chains_.push_back(std::move(chain));
  }

  Chain around(std::size_t i) const {
    const PartOperands& parts = step(i).parts();
    const Operand& written = step(i).operands()[static_cast<std::size_t>(parts.written)];
    Chain chain{.kernel = i, .place = i, .elements = written.numel};
    Extent extent(recording_, chain.elements);
    if (used_[i] || chain.elements < 2 || !extent.add_kernel(step(i))) return chain;
    if (parts.read != PartOperands::kNone) {
      const Operand& read = step(i).operands()[static_cast<std::size_t>(parts.read)];
      collect_before(read.block, extent, chain);
    }
    collect_after(written.block, extent, chain);
    return chain;
  }

  Chain from(std::size_t i) const {
    const Operand& result = step(i).operands().back();
    Chain chain{.after = {i}, .place = i, .elements = result.numel};
    Extent extent(recording_, chain.elements);
    if (chain.elements < 2 || !extent.add(step(i))) return chain;
    collect_after(result.block, extent, chain);
    return chain;
  }

  bool is_candidate(std::size_t i, const Chain& chain) const {
    return step(i).is_elementwise() && step(i).operands().back().numel == chain.elements;
  }
  bool may_pass(std::size_t i, const std::vector<std::size_t>& others) const {
    return std::ranges::all_of(
        others, [&](std::size_t k) { return may_swap(recording_, step(i), step(k)); });
  }

  // Steps before the kernel of which each writes what a later one reads, and the last one writes
  // `block`. They move to the kernel. Chains do not interleave: their orders could contradict.
  void collect_before(std::int64_t block, Extent& extent, Chain& chain) const {
    std::set<std::int64_t> wanted{block};
    std::vector<std::size_t> skipped;
    int calls = 0;  // skipped since the last member
    for (std::size_t next = chain.place; next > 0 && calls <= kMostSkipped; --next) {
      const std::size_t i = next - 1;
      if (used_[i]) return;
      const Step& each = step(i);
      if (is_candidate(i, chain) && wanted.contains(each.operands().back().block) &&
          may_pass(i, skipped) && extent.add(each)) {
        chain.before.insert(chain.before.begin(), i);
        for (const Operand& operand : each.operands()) wanted.insert(operand.block);
        calls = 0;
        continue;
      }
      skipped.push_back(i);
      if (!each.is_opaque()) ++calls;
    }
  }

  // Steps after the chain's place of which each reads `block`, or what an earlier one has written.
  // Steps in between come after the chain, if the new member may pass them, or else before it.
  void collect_after(std::int64_t block, Extent& extent, Chain& chain) const {
    std::set<std::int64_t> written{block};
    std::vector<std::size_t> later;    // come after the chain
    std::vector<std::size_t> skipped;  // since the last member
    int calls = 0;
    for (std::size_t i = chain.place + 1; i < used_.size() && calls <= kMostSkipped && !used_[i];
         ++i) {
      const Step& each = step(i);
      const bool reads_written = std::ranges::any_of(
          each.operands(), [&](const Operand& operand) { return written.contains(operand.block); });
      const bool is_first = may_pass(i, later) && may_pass(i, skipped);
      if (is_candidate(i, chain) && reads_written &&
          (is_first || (later.empty() && members_may_pass(chain, skipped))) && extent.add(each)) {
        if (is_first) {
          later.insert(later.end(), skipped.begin(), skipped.end());
        } else {
          chain.place = i;
        }
        chain.after.push_back(i);
        written.insert(each.operands().back().block);
        skipped.clear();
        calls = 0;
        continue;
      }
      skipped.push_back(i);
      if (!each.is_opaque()) ++calls;
    }
  }
  bool members_may_pass(const Chain& chain, const std::vector<std::size_t>& others) const {
    return std::ranges::all_of(chain.members(),
                               [&](std::size_t member) { return may_pass(member, others); });
  }

  const Recording& recording_;
  std::vector<bool> used_;
  std::vector<Chain> chains_;
};

std::unique_ptr<PartWork> work_of(const std::vector<std::size_t>& steps,
                                  const Recording& recording) {
  if (steps.empty()) return nullptr;
  std::vector<PartWork> each;
  for (const std::size_t i : steps) each.push_back(recording.steps[i]->in_parts());
  return std::make_unique<PartWork>(
      [each = std::move(each)](std::int64_t first, std::int64_t count) {
        for (const PartWork& work : each) work(first, count);
      });
}

}  // namespace

std::vector<std::size_t> Chain::members() const {
  std::vector<std::size_t> all = before;
  if (kernel) all.push_back(*kernel);
  all.insert(all.end(), after.begin(), after.end());
  return all;
}

std::vector<Chain> find_chains(const Recording& recording) {
  return Finder(recording).find();
}

Link::Link(const Chain& chain, const Recording& recording)
    : elements_(chain.elements),
      before_(work_of(chain.before, recording)),
      after_(work_of(chain.after, recording)) {
  for (const std::size_t i : chain.members()) {
    if (!name_.empty()) name_ += " + ";
    name_ += recording.steps[i]->name();
  }
  if (!chain.kernel) return;
  step_ = recording.steps[*chain.kernel].get();
  step_->set_hooks({.before = before_.get(), .after = after_.get()});
}

void Link::run() {
  if (step_ != nullptr) return step_->run();
  parallel_for(elements_, kChainGrain, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kPartElements) {
      (*after_)(i, std::min(kPartElements, end - i));
    }
  });
}

}  // namespace dl::tape
