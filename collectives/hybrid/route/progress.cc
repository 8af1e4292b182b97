#include "collectives/hybrid/route/progress.h"

#include <algorithm>
#include <functional>

#include "collectives/reduce/reduce.h"

namespace dl::collectives::hybrid {
namespace {

using namespace std::chrono_literals;

// Slices on their way between nodes at a time: the link stays busy while one slice is received and
// the next one is summed.
constexpr std::size_t kAhead = 4;
// Stagger's times: at most so long, and at most this fraction of the timeout.
constexpr std::chrono::nanoseconds kMostStep = 10ms;
constexpr int kStepsADeadline = 20;
constexpr std::chrono::nanoseconds kMostAnswer = 500ms;
constexpr int kAnswersADeadline = 10;

}  // namespace

LaneCalls& LaneCalls::operator+=(const LaneCalls& other) noexcept {
  std::ranges::transform(in, other.in, in.begin(), std::plus());
  return *this;
}

LaneCalls& LaneCalls::operator-=(const LaneCalls& other) noexcept {
  std::ranges::transform(in, other.in, in.begin(), std::minus());
  return *this;
}

Stagger::Stagger(std::chrono::nanoseconds timeout) noexcept
    : step(std::min(kMostStep, timeout / kStepsADeadline)),
      answer(std::min(kMostAnswer, timeout / kAnswersADeadline)) {}

std::chrono::nanoseconds Stagger::of(Lane lane, std::chrono::nanoseconds left) const noexcept {
  const std::chrono::nanoseconds later = (static_cast<int>(lane) + 1) * step;
  return left > std::chrono::nanoseconds::max() - later ? std::chrono::nanoseconds::max()
                                                        : std::max(left, 0ns) + later;
}

bool is_over(const Ref<Work>& work) {
  if (!work) return true;
  if (!work->is_completed()) return false;
  if (const std::exception_ptr error = work->error()) std::rethrow_exception(error);
  return true;
}

// An operation begins in a lane after all earlier operations have begun there.
void Progress::advance(const Lanes& lanes, const Limit& limit, Open& open) {
  const std::size_t slices = slices_.size();
  while (begun_[kIn] < slices) begin(lanes, limit, Lane::kIn);
  while (open.cross && begun_[kCross] < slices && is_over(works_[begun_[kCross]][kIn])) {
    begin(lanes, limit, Lane::kCross);
  }
  open.cross = open.cross && begun_[kCross] == slices;
  while (open.out && begun_[kOut] < begun_[kCross] && is_over(works_[begun_[kOut]][kCross])) {
    const Division& d = slices_[begun_[kOut]].division;
    if (d.ranks > 0) finish(d.dtype, ReduceOp::kAvg, d.data, d.count, d.ranks);
    begin(lanes, limit, Lane::kOut);
  }
  open.out = open.out && begun_[kOut] == slices;
}

const Ref<Work>& Progress::next_work() const noexcept {
  const std::size_t next_cross = begun_[kCross];
  const std::size_t next_out = begun_[kOut];
  const bool keeps_line_busy = next_cross < slices_.size() && next_cross - next_out < kAhead;
  return keeps_line_busy || next_out == next_cross ? works_[next_cross][kIn]
                                                   : works_[next_out][kCross];
}

void Progress::begin(const Lanes& lanes, const Limit& limit, Lane lane) {
  const auto at = static_cast<std::size_t>(lane);
  const std::size_t slice = begun_[at];
  // The agreement and earlier lanes time out first: ranks may still wait there for the rank to
  // blame.
  const std::chrono::nanoseconds left = Stagger(limit.timeout).of(lane, limit.deadline.left());
  if (std::optional<Call>& call = slices_[slice].calls[at]) {
    const CallOptions options{.timeout = left};
    call->options = &options;
    works_[slice][at] = lanes[at]->start(*call);
    call->options = nullptr;
  }
  ++begun_[at];
}

LaneCalls Progress::calls() const noexcept {
  LaneCalls calls;
  for (const Slice& slice : slices_) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (slice.calls[lane]) ++calls.in[lane];
    }
  }
  return calls;
}

bool Progress::are_works_over() const noexcept {
  return std::ranges::all_of(works_, [](const auto& lanes) {
    return std::ranges::all_of(lanes,
                               [](const Ref<Work>& work) { return !work || work->is_completed(); });
  });
}

std::exception_ptr Progress::error() const noexcept {
  for (const auto& lanes : works_) {
    for (const Ref<Work>& work : lanes) {
      if (const std::exception_ptr error = work ? work->error() : nullptr) return error;
    }
  }
  return nullptr;
}

std::chrono::steady_clock::time_point Progress::completed_at(
    std::chrono::steady_clock::time_point least) const noexcept {
  for_each_work([&](const Ref<Work>& work) {
    least = std::max(least, work->completed_at().value_or(least));
  });
  return least;
}

}  // namespace dl::collectives::hybrid
