// What every backend's split() shares: finding the members of the new groups, and an exchange of a
// few bytes before a new group exists. All of it is collective over the parent, and used by one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "collectives/api/process_group.h"
#include "collectives/compose/split_plan.h"
#include "collectives/join/group_options.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// Takes the place of the job's store while a new group is made. A set() is an exchange over the
// parent, in which every rank takes part: a rank that sets nothing calls pass() instead. get()
// finds what the others have set. A group that consists of several inner groups makes one round for
// each, with one set() or pass() a rank. Other operations of Store throw kInternal.
class SplitStore final : public rendezvous::Store {
 public:
  explicit SplitStore(ProcessGroup& parent) : parent_(parent) {}

  void pass() { exchange({}, {}); }
  // Calls pass() for every earlier round without one; the first round is 0.
  void begin_round(int round);
  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;

  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  void close(std::string_view) noexcept override {}

 private:
  void exchange(std::string_view key, std::string_view value);

  ProcessGroup& parent_;
  int round_ = 0;  // the round in which set() may take part
  int exchanged_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
};

// Makes the new group, of two ranks or more. The SplitStore is also the store in its options.
using MakePart =
    std::function<Ref<ProcessGroup>(const GroupOptions&, const SplitPlan&, SplitStore&)>;
// split() of a group that was made from GroupOptions. `how`: the parent's options. `rounds`: how
// many rounds of the store one new group needs. If a new group cannot be made, the parent is
// aborted, because its other ranks wait.
Ref<ProcessGroup> split_group(ProcessGroup& parent, const SplitOptions& options,
                              std::uint64_t number, GroupOptions how, int rounds,
                              const MakePart& make);

}  // namespace dl::collectives
