// The common part of every backend's split(): the new groups' members, and an exchange of a few
// bytes before the new group exists. All are collective over the parent; used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/compose/split_plan.h"
#include "collectives/join/group_options.h"
#include "rendezvous/store.h"

namespace dl::collectives {

// A Store for making a group, in place of the job's. A set() is an exchange over the parent, in
// which every rank takes part; get() finds what the others have set. A rank that sets nothing calls
// pass() instead. If a group consists of several groups there is a round for each, with one set()
// or pass() a rank. Other operations of Store are refused.
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
  bool erase(std::string_view key, Deadline deadline) override;
  std::vector<Change> watch(std::string_view prefix, std::uint64_t since,
                            Deadline deadline) override;
  void close(std::string_view) noexcept override {}

 private:
  void exchange(std::string_view key, std::string_view value);

  ProcessGroup& parent_;
  int round_ = 0;  // the round in which set() may take part
  int exchanged_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
};

// Makes the group for a part of two ranks or more; the store is in its options too.
using MakePart =
    std::function<Ref<ProcessGroup>(const GroupOptions&, const SplitPlan&, SplitStore&)>;
// split() of a group that was made from GroupOptions. `how`: the parent's; `rounds`: of the store,
// for one part. If a part cannot be made the parent is aborted, because its other ranks wait.
Ref<ProcessGroup> split_group(ProcessGroup& parent, const SplitOptions& options,
                              std::uint64_t number, GroupOptions how, int rounds,
                              const MakePart& make);

}  // namespace dl::collectives
