#include "collectives/solo/solo_group.h"

#include <atomic>

#include "collectives/call/checks.h"
#include "collectives/compose/split_plan.h"
#include "collectives/reduce/reduce.h"
#include "collectives/waiting/done_work.h"
#include "collectives/waiting/group_error.h"
#include "core/base/mutex.h"

namespace dl::collectives {
namespace {

class SoloGroup final : public ProcessGroup {
 public:
  explicit SoloGroup(std::string name) : ProcessGroup(0, 1, std::move(name), "solo") {}

  Ref<Work> start(const Call& call) override {
    check_is_on_cpu(call, backend());
    if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
    if (call.row().reduces) {
      // combine() turns each bool into 0 or 1, as a reduction over several ranks does.
      const void* const shares[] = {call.input};
      combine(call.what.dtype, call.what.reduce, call.output, shares, call.takes.count(0));
    } else {
      copy_own_part(call, 0);
    }
    return make_ref<DoneWork>("copy");
  }

  Ref<ProcessGroup> split(const SplitOptions& o) override {
    const SplitPlan plan = plan_split(*this, o, next_split_++);
    return plan.rank < 0 ? nullptr : make_solo_group(plan.name);
  }

  void abort(std::string_view reason) noexcept override {
    const Lock lock(mutex_);
    if (error_) return;
    try {
      error_ = std::make_exception_ptr(GroupError(cause_of_abort(name(), "rank 0", reason)));
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  std::exception_ptr error() const noexcept override {
    const Lock lock(mutex_);
    return error_;
  }

 private:
  mutable Mutex mutex_;
  std::exception_ptr error_ DL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> next_split_{1};
};

}  // namespace

Ref<ProcessGroup> make_solo_group(std::string name) {
  return make_ref<SoloGroup>(std::move(name));
}

}  // namespace dl::collectives
