#include "nn/parallel/reducer/device_clock.h"

#include <algorithm>
#include <utility>

#include "nn/parallel/reducer/overlap.h"

namespace dl::nn::parallel {
namespace {

std::chrono::nanoseconds between(const cuda::Event& a, const cuda::Event& b) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<float, std::milli>(a.elapsed_ms(b)));
}

}  // namespace

DeviceClock::DeviceClock(int device) : device_(device), after_(device) {}

cuda::Event DeviceClock::mark(const Stream& stream) const {
  cuda::Event event(device_, true);
  event.record(stream);
  return event;
}

void DeviceClock::start() {
  now_.starts.push_back(mark(cuda::current_stream(device_)));
}

void DeviceClock::computed() {
  now_.marks.push_back(mark(cuda::current_stream(device_)));
}

void DeviceClock::end(collectives::Work& work) {
  work.wait(after_.get());
  now_.ends.push_back(mark(after_.get()));
}

void DeviceClock::reduced() {
  now_.marks.push_back(mark(cuda::current_stream(device_)));
  given_.push_back(std::exchange(now_, {}));
}

std::optional<DeviceClock::Times> DeviceClock::take(bool wait) {
  if (given_.empty()) return std::nullopt;
  const Step& step = given_.front();
  // This event follows all others of the step.
  const cuda::Event& last = step.marks.back();
  if (wait) last.synchronize();
  const auto passed = [](const cuda::Event& event) { return event.query(); };
  if (!last.query() || !std::ranges::all_of(step.ends, passed)) {
    if (!wait) return std::nullopt;
    for (const cuda::Event& end : step.ends) end.synchronize();
  }
  Times times{.exposed = std::max(between(step.marks.front(), last), std::chrono::nanoseconds{0})};
  std::vector<Interval> intervals;
  const std::chrono::steady_clock::time_point zero{};  // the first start
  for (std::size_t i = 0; i < step.starts.size(); ++i) {
    const cuda::Event& first = step.starts.front();
    intervals.push_back({i == 0 ? zero : zero + between(first, step.starts[i]),
                         zero + between(first, step.ends[i])});
  }
  times.communication = union_length(intervals);
  given_.pop_front();
  return times;
}

}  // namespace dl::nn::parallel
