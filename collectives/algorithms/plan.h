// Plan: which algorithm an operation takes, on which link, with how many ranks.
//
// A plan has a name, the cost terms of the links (cost.h) and rules that go before the costs. It
// may come from a file (docs/guides/tuning.md; `dlbench --tune` writes one). Rank 0's plan is
// shared through the store and counts for all; every rank derives the same Choices of the group
// from it, and their hash is part of each operation's descriptor. So an algorithm, and with it the
// order of additions, is a fixed function of the plan, the operation, the dtype, the count, the
// ranks and the nodes: never of what one rank sees or measures.
//
// Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms/cost.h"
#include "collectives/algorithms/schedule.h"
#include "collectives/descriptor.h"

namespace dl::collectives {

struct GroupShape {
  int ranks = 1;
  int nodes = 1;
};

// Reductions whose partial sums may travel have other algorithms than those that need every rank's
// raw share (wants_raw_shares). Operations that reduce nothing count as kPartial.
enum class SumClass : std::uint8_t { kPartial, kRaw };
SumClass sum_class(const Descriptor& descriptor) noexcept;

struct PlanRule {
  OpKind op = OpKind::kAllReduce;
  std::optional<SumClass> sums{};  // nullopt: each that has the algorithm
  int nodes = 0;                   // 0: any number
  int ranks = 0;
  std::uint64_t up_to = 0;  // bytes: count * size of an element
  Algorithm algorithm = Algorithm::kDirect;
  friend bool operator==(const PlanRule&, const PlanRule&) noexcept = default;
};

struct Plan {
  std::string name = "default";
  std::array<Link, kLinkKindCount> links{default_link(LinkKind::kShm),
                                         default_link(LinkKind::kLoopback),
                                         default_link(LinkKind::kEthernet)};
  std::vector<PlanRule> rules{};  // the first that fits counts

  const Link& link(LinkKind kind) const noexcept { return links[static_cast<std::size_t>(kind)]; }

  // The text of a plan file; parse() gives an equal plan.
  std::string text() const;
  // `source` begins the text of an error: "plan 'rack7.plan'". Throws kInvalidArgument with the
  // line's number.
  static Plan parse(std::string_view text, std::string_view source);
  // Throws kIo too.
  static Plan load(const std::string& path);

  friend bool operator==(const Plan&, const Plan&) = default;
};

// The plan with what DLRUN_ALGORITHM says, "ring" or "all_reduce:ring,broadcast:chain", before its
// other rules. Without a name every operation that has the algorithm takes it. Throws
// kInvalidArgument with what there is.
Plan with_algorithms(Plan plan, std::string_view words);

// Where a plan lies that nobody has named: dlrun/plan in $XDG_CONFIG_HOME or ~/.config; empty where
// there is no home.
std::string default_plan_path();
// The plan that this process brings: of the file `path`, else DLRUN_PLAN, else default_plan_path()
// where there is one, else Plan{}; "default" is Plan{} too. Then with `algorithms`, else
// DLRUN_ALGORITHM. Throws what load() and with_algorithms() throw.
Plan find_plan(const std::string& path, const std::string& algorithms);

// One line instead of several, as it stands in a rank's record.
std::string to_line(const Plan& plan);
Plan plan_of_line(std::string_view line, std::string_view source);

// A plan, applied to one TCP group.
class Choices {
 public:
  struct Step {
    std::uint64_t up_to;  // bytes; the last one's is the most there is
    Algorithm algorithm;
    friend bool operator==(const Step&, const Step&) noexcept = default;
  };

  Choices() : Choices(Plan{}, GroupShape{}) {}
  Choices(const Plan& plan, GroupShape shape);

  Algorithm choose(const Descriptor& descriptor) const noexcept;
  // By size, ascending.
  std::span<const Step> steps(OpKind op, SumClass sums) const noexcept;
  // Of the steps; not 0.
  std::uint32_t hash() const noexcept { return hash_; }

 private:
  std::array<std::array<std::vector<Step>, 2>, kOpKindCount> steps_;
  std::uint32_t hash_ = 0;
};

}  // namespace dl::collectives
