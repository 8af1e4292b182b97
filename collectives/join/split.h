// What every backend's split() shares: finding the members of the new groups, and an exchange of a
// few bytes before a new group exists. All of it is collective over the parent, and used by one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/compose/split_plan.h"
#include "collectives/join/group_options.h"
#include "collectives/join/round_store.h"

namespace dl::collectives {

// Takes the place of the job's store while a new group is made; the ranks of the parent exchange.
class SplitStore final : public RoundStore {
 public:
  explicit SplitStore(ProcessGroup& parent) : RoundStore("split"), parent_(parent) {}

 private:
  std::vector<std::string> gather(const std::string& line, Deadline deadline) override;
  ProcessGroup& parent_;
};

// Makes the new group, of two ranks or more. The SplitStore is also the store in its options.
using MakePart =
    std::function<Ref<ProcessGroup>(const GroupOptions&, const SplitPlan&, SplitStore&)>;
// split() of a group that was made from GroupOptions. `how`: the parent's options. `rounds`: how
// many rounds of the store one new group needs. If a new group cannot be made, the parent is
// aborted, because its other ranks wait; their calls throw the parent's cause.
Ref<ProcessGroup> split_group(ProcessGroup& parent, const SplitOptions& options,
                              std::uint64_t number, GroupOptions how, int rounds,
                              const MakePart& make);

}  // namespace dl::collectives
