// --tune: measures each term of a link with the operation that shows it best.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>

#include "collectives/bench/measure/measure.h"
#include "collectives/bench/planner.h"
#include "collectives/reduce/reduce.h"
#include "core/base/error.h"
#include "core/base/system/atomic_file.h"

namespace dl::collectives::bench {
namespace {

using Clock = std::chrono::steady_clock;

// For each of the five measurements.
constexpr auto kTime = std::chrono::milliseconds(700);
constexpr std::size_t kLeastRounds = 5;
constexpr std::size_t kMessages = 16;
constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr std::size_t kSliceBytes = std::size_t{64} << 10;

class Tuner {
 public:
  explicit Tuner(ProcessGroup& group) : group_(group) {}

  Link measure() {
    const auto p = static_cast<unsigned>(group_.size());
    Link link;
    link.a = time(20, [&] { group_.barrier()->wait(); }) / std::bit_width(p - 1);
    const double one = time(20, [&] { shift(1); });
    const double many = time(4, [&] { shift(1 + kMessages); });
    // A burst may hide the cost of a message, which is then measured as 0. It is at most the
    // latency of a single message.
    link.o = std::clamp((many - one) / kMessages, 0.0, link.a);
    std::vector<std::byte> part(kPartBytes), all(kPartBytes * p);
    const double gathered = time(1, [&] {
      group_
          .all_gather({.input = part.data(),
                       .output = all.data(),
                       .count = kPartBytes,
                       .dtype = DType::kU8})
          ->wait();
    });
    link.b = std::max(gathered / (p - 1) - link.a, 0.0) / kPartBytes;
    std::vector<float> ours(kSliceBytes / sizeof(float), 1), theirs(ours.size(), 0);
    link.g = time(50,
                  [&] {
                    reduce(DType::kF32, ReduceOp::kSum, ours.data(), theirs.data(), ours.data(),
                           ours.size());
                  }) /
             kSliceBytes;
    return link;
  }

 private:
  // Seconds of one call: the median over rounds of `calls`, on the slowest rank. Rank 0's clock
  // decides when the ranks have measured enough.
  double time(int calls, const std::function<void()>& call) {
    std::vector<double> rounds;
    const Clock::time_point begin = Clock::now();
    for (std::uint8_t is_enough = 0; is_enough == 0;) {
      group_.barrier()->wait();
      const Clock::time_point started = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      rounds.push_back(std::chrono::duration<double>(Clock::now() - started).count() / calls);
      is_enough = rounds.size() >= kLeastRounds && Clock::now() - begin > kTime ? 1 : 0;
      group_.broadcast({.buffer = &is_enough, .count = 1, .dtype = DType::kU8})->wait();
    }
    double median = summarize(rounds).p50;
    group_
        .all_reduce({.input = &median,
                     .output = &median,
                     .count = 1,
                     .dtype = DType::kF64,
                     .op = ReduceOp::kMax})
        ->wait();
    return median;
  }

  // Sends this many small messages to the right neighbour at once, and receives as many from the
  // left.
  void shift(std::size_t messages) {
    std::vector<PeerMessage> batch;
    const int p = group_.size();
    for (std::uint32_t tag = 0; tag < messages; ++tag) {
      batch.emplace_back(SendOptions{.buffer = &out_,
                                     .count = 1,
                                     .dtype = DType::kU64,
                                     .peer = (group_.rank() + 1) % p,
                                     .tag = tag});
      batch.emplace_back(RecvOptions{.buffer = &in_[tag],
                                     .count = 1,
                                     .dtype = DType::kU64,
                                     .peer = (group_.rank() + p - 1) % p,
                                     .tag = tag});
    }
    group_.batch(batch)->wait();
  }

  ProcessGroup& group_;
  std::uint64_t out_ = 0;
  std::uint64_t in_[1 + kMessages] = {};
};

void write_plan(const Plan& plan, const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) throw_errno(error.value(), fmt::format("create {}", parent.string()));
  const std::string text = plan.text();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

std::string steps_text(const Choices& choices, OpKind op, SumClass sums) {
  std::string text;
  for (const Choices::Step& step : choices.steps(op, sums)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(step.algorithm));
    if (step.up_to != UINT64_MAX) text += fmt::format(" to {} B", step.up_to);
  }
  return text;
}

}  // namespace

int tune(ProcessGroup& group, const Options& o, int nodes) {
  DL_CHECK(group.size() > 1, kInvalidArgument,
           "--tune measures what is between ranks; start it with dlrun --nproc-per-node 2 or more");
  const std::string path = o.tune_file.empty() ? default_plan_path() : o.tune_file;
  Plan plan;
  if (group.rank() == 0) {
    DL_CHECK(!path.empty(), kInvalidArgument, "HOME is not set; name the plan's file with -o");
    if (::access(path.c_str(), F_OK) == 0) plan = Plan::load(path);
  }
  const LinkKind kind = group.backend() == "shm" ? LinkKind::kShm
                        : nodes > 1              ? LinkKind::kEthernet
                                                 : LinkKind::kLoopback;
  const Link measured = Tuner(group).measure();
  if (group.rank() != 0) return 0;
  const Link before = plan.link(kind);
  plan.links[static_cast<std::size_t>(kind)] = measured;
  if (plan.name == Plan{}.name) plan.name = "tuned";
  write_plan(plan, path);
  fmt::print("# {} on {}, {} ranks on {} nodes\n", name_of(kind), group.backend(), group.size(),
             nodes);
  fmt::print("# {:>24}  {:>10}  {:>10}\n", "", "measured", "before");
  fmt::print("# {:>24}  {:>10.3g}  {:>10.3g}\n", "latency (us)", measured.a * 1e6, before.a * 1e6);
  fmt::print("# {:>24}  {:>10.3g}  {:>10.3g}\n", "further messages (us)", measured.o * 1e6,
             before.o * 1e6);
  fmt::print("# {:>24}  {:>10.3g}  {:>10.3g}\n", "a byte (ns)", measured.b * 1e9, before.b * 1e9);
  fmt::print("# {:>24}  {:>10.3g}  {:>10.3g}\n", "its reduction (ns)", measured.g * 1e9,
             before.g * 1e9);
  if (kind != LinkKind::kShm) {
    const Choices choices(plan, {.ranks = group.size(), .nodes = nodes});
    fmt::print("# all_reduce takes {}\n",
               steps_text(choices, OpKind::kAllReduce, SumClass::kPartial));
    fmt::print("# of raw shares    {}\n", steps_text(choices, OpKind::kAllReduce, SumClass::kRaw));
  }
  fmt::print("# plan '{}' is in {}{}\n", plan.name, path,
             path == default_plan_path() ? ", which runs of this user take"
                                         : "; runs take it with DLRUN_PLAN or --plan");
  fmt::print("# Under another plan, sums of floats may differ in their last bits.\n");
  return 0;
}

}  // namespace dl::collectives::bench
