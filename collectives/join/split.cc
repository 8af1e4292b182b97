#include "collectives/join/split.h"

#include <poll.h>

#include <chrono>
#include <exception>

#include "collectives/solo/solo_group.h"
#include "collectives/waiting/group_error.h"
#include "core/base/deadline.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// A rank that fails closes its connections before it aborts the parent: how long this rank waits
// for the parent's cause, which says more than the end of a connection.
constexpr std::chrono::milliseconds kCauseGrace{300};
constexpr std::chrono::milliseconds kCauseLook{5};

void rethrow_cause(const ProcessGroup& parent, Deadline until = Deadline::after({})) {
  for (;;) {
    if (const std::exception_ptr cause = parent.error()) std::rethrow_exception(cause);
    if (until.has_passed()) return;
    ::poll(nullptr, 0, Deadline::earlier(until, Deadline::after(kCauseLook)).poll_timeout());
  }
}

// True if another rank's failure may be behind an error of this kind.
bool may_be_of_another(ErrorKind kind) {
  return kind == ErrorKind::kConnection || kind == ErrorKind::kPeerFailed;
}

}  // namespace

std::vector<std::string> SplitStore::gather(const std::string& line, Deadline) {
  return all_gather_bytes_for(kForSplit, parent_, line);
}

Ref<ProcessGroup> split_group(ProcessGroup& parent, const SplitOptions& o, std::uint64_t number,
                              GroupOptions how, int rounds, const MakePart& make) {
  const SplitPlan plan = plan_split(parent, o, number);
  SplitStore store(parent);
  Ref<ProcessGroup> part;
  if (plan.members.size() == 1) part = make_solo_group(plan.name);
  if (plan.members.size() > 1) {
    how.job_rank = how.in_job();
    how.known_as = -1;
    how.rank = plan.rank;
    how.size = static_cast<int>(plan.members.size());
    how.name = plan.name;
    how.store = &store;
    how.timeout = o.timeout.value_or(how.timeout);
    how.check_making = [&parent] { rethrow_cause(parent); };
    const Called called{.operation = making_of(plan.name),
                        .text = fmt::format("split into group '{}'", plan.name)};
    try {
      part = tell_failure(called, how.in_job(), [&] { return make(how, plan, store); });
    } catch (const std::exception&) {
      const Cause own = cause_of(std::current_exception());
      rethrow_cause(
          parent,
          Deadline::after(may_be_of_another(own.kind) ? kCauseGrace : std::chrono::milliseconds{}));
      // The other ranks wait for this one, in the parent or for its connections.
      parent.abort(fmt::format("split into group '{}' failed: {}", plan.name, own.text));
      throw;
    }
  }
  store.begin_round(rounds);
  return part;
}

}  // namespace dl::collectives
