// Plan: chooses the algorithm of an operation by its link and the number of ranks.
//
// A plan has a name, the cost terms of the links (cost.h), and rules that take precedence over the
// costs. It may come from a file (docs/guides/tuning.md; `dlbench --tune` writes one). Rank 0's
// plan is shared through the store and counts for all ranks. Every rank derives the same Choices of
// the group from it, and the hash of these is part of each operation's descriptor. So the
// algorithm, and with it the order of additions, depends only on the plan, the operation, the
// dtype, the count, the ranks and the nodes: never on what one rank measures.
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
#include "collectives/call/call.h"
#include "collectives/call/descriptor.h"

namespace dl::collectives {

struct GroupShape {
  int ranks = 1;
  int nodes = 1;
};

// Reductions that may send partial sums have other algorithms than those that need every rank's raw
// share (wants_raw_shares). Operations without a reduction count as kPartial.
enum class SumClass : std::uint8_t { kPartial, kRaw };
SumClass sum_class(const Descriptor& descriptor) noexcept;

struct PlanRule {
  OpKind op = OpKind::kAllReduce;
  std::optional<SumClass> sums{};  // nullopt: each class that has the algorithm
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
  std::vector<PlanRule> rules{};  // the first rule that fits counts

  const Link& link(LinkKind kind) const noexcept { return links[static_cast<std::size_t>(kind)]; }

  // The text of a plan file; parse() gives an equal plan.
  std::string text() const;
  // `source` begins an error's text: "plan 'rack7.plan'". Throws kInvalidArgument with the line's
  // number.
  static Plan parse(std::string_view text, std::string_view source);
  // Throws what parse() throws, and kIo.
  static Plan load(const std::string& path);

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Puts rules for DLRUN_ALGORITHM, "ring" or "all_reduce:ring,broadcast:chain", before the plan's
// other rules. Without an operation's name, every operation that has the algorithm uses it. Throws
// kInvalidArgument with the known names.
Plan with_algorithms(Plan plan, std::string_view words);

// Path of the plan if none is named: dlrun/plan in $XDG_CONFIG_HOME or ~/.config; empty if there is
// no home directory.
std::string default_plan_path();
// The plan of this process: from the file `path`, else from DLRUN_PLAN, else from
// default_plan_path() if this file exists, else Plan{}; "default" means Plan{} too. Then applies
// `algorithms`, else DLRUN_ALGORITHM. Throws what load() and with_algorithms() throw.
Plan find_plan(const std::string& path, const std::string& algorithms);

// A plan in one line, for a rank's record.
std::string to_line(const Plan& plan);
Plan plan_of_line(std::string_view line, std::string_view source);

// A plan, applied to one group.
class Choices {
 public:
  struct Step {
    std::uint64_t up_to;  // bytes; the last step's is the maximum
    Algorithm algorithm;
    friend bool operator==(const Step&, const Step&) noexcept = default;
  };

  Choices() : Choices(Plan{}, GroupShape{}) {}
  Choices(const Plan& plan, GroupShape shape);

  Algorithm choose(const Descriptor& descriptor) const noexcept;
  // The schedule of a collective. all_gather finds this rank's part in the output, to which
  // copy_own_part() has copied it: `call.input` is set to this place.
  Schedule schedule(Call& call, int rank, int size) const;
  // By size, ascending.
  std::span<const Step> steps(OpKind op, SumClass sums) const noexcept;
  // Hash of the steps; not 0.
  std::uint32_t hash() const noexcept { return hash_; }

 private:
  std::array<std::array<std::vector<Step>, 2>, kOpKindCount> steps_;
  std::uint32_t hash_ = 0;
};

}  // namespace dl::collectives
