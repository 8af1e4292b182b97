// A Work for several, over Works that are made for the purpose.
#include "collectives/waiting/joined_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "collectives/waiting/still_running.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;
using Timeout = std::optional<std::chrono::nanoseconds>;

// Takes `time` of the caller's, and is over after it or never.
class TimedWork final : public Work {
 public:
  TimedWork(std::chrono::nanoseconds time, bool is_over) : time_(time), is_over_(is_over) {}

  void wait(Stream) override { synchronize(std::nullopt); }
  void synchronize(Timeout timeout) override {
    const auto until = std::chrono::steady_clock::now() + time_;
    while (std::chrono::steady_clock::now() < until) continue;
    if (!is_over_) throw StillRunning("all_reduce #2", timeout.value(), "waiting for rank 1");
  }
  bool is_completed() const noexcept override { return is_over_; }
  std::exception_ptr error() const noexcept override { return nullptr; }

 private:
  std::chrono::nanoseconds time_;
  bool is_over_;
};

class Bell final : public Alarm {
 public:
  void ring() noexcept override { ++rings; }
  std::atomic<int> rings{0};
};

TEST(JoinedWork, RingsOnceAfterTheLastOfItsWorks) {
  const auto bell = make_ref<Bell>();
  join({})->watch(bell);
  EXPECT_EQ(bell->rings, 1);
  // TimedWork has no alarm of its own: a thread waits for each.
  const auto both = make_ref<Bell>();
  join({make_ref<TimedWork>(1ms, true), make_ref<TimedWork>(50ms, true)})->watch(both);
  EXPECT_TRUE(tests::eventually([&] { return both->rings == 1; }));
}

TEST(JoinedWork, NamesTheTimeoutOfTheCallAndNotWhatWasLeftOfIt) {
  const Ref<Work> both = join({make_ref<TimedWork>(10ms, true), make_ref<TimedWork>(0ms, false)});
  try {
    both->synchronize(2s);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const StillRunning& late) {
    EXPECT_EQ(std::string(late.what()),
              "all_reduce #2: still running after 2 s, waiting for rank 1; it continues");
  }
}

}  // namespace
}  // namespace dl::collectives
