// The backends whose ranks can be threads of one process.
#include "collectives/call/call.h"
#include "collectives/device/staged_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/waiting/work.h"
#include "tests/collectives/conformance/conformance.h"
#include "tests/collectives/conformance/mailbox_group.h"
#include "tests/collectives/ranks.h"
#include "tests/support/fake_cuda.h"

namespace dl::collectives::testing {

namespace {

using test::FakeRuntime;
using test::FakeWork;

GroupOptions options_of(rendezvous::Store& store, int rank, int size) {
  return {.rank = rank, .size = size, .store = &store, .connect_timeout = 30s};
}

void run_solo(int size, const std::function<void(ProcessGroup& group)>& body) {
  ASSERT_EQ(size, 1);
  body(*make_solo_group());
}

void run_mailbox(int size, const std::function<void(ProcessGroup& group)>& body) {
  const std::vector<Ref<ProcessGroup>> groups = make_mailbox_groups(size);
  run_threads(size, [&](int rank) { body(*groups[static_cast<std::size_t>(rank)]); });
}

void run_groups(std::string_view backend, int size,
                const std::function<void(ProcessGroup& group)>& body) {
  rendezvous::MemoryStore store;
  run_threads(size, [&](int rank) { body(*make_group(backend, options_of(store, rank, size))); });
}

void run_tcp(int size, const std::function<void(ProcessGroup& group)>& body) {
  run_groups("tcp", size, body);
}

void run_shm(int size, const std::function<void(ProcessGroup& group)>& body) {
  run_groups("shm", size, body);
}

void run_hybrid(int size, const std::function<void(ProcessGroup& group)>& body) {
  run_groups("hybrid", size, body);
}

// Waits on a stream. No stream waits until a message is received, so the host does it as well.
class StreamWork final : public Work {
 public:
  StreamWork(Ref<Work> work, const Stream& stream) : work_(std::move(work)), stream_(stream) {}
  void wait(Stream) override {
    work_->wait(stream_);
    work_->synchronize();
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    work_->synchronize(timeout);
  }
  bool is_completed() const noexcept override { return work_->is_completed(); }
  std::exception_ptr error() const noexcept override { return work_->error(); }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return work_->completed_at();
  }
  std::optional<int> source() const noexcept override { return work_->source(); }
  std::string_view algorithm() const noexcept override { return work_->algorithm(); }

 private:
  const Ref<Work> work_;
  const Stream stream_;
};

// Makes each call on a stream, whose device's memory is in truth the host's.
class StreamGroup final : public ProcessGroup {
 public:
  StreamGroup(Ref<ProcessGroup> group, const Stream& stream)
      : ProcessGroup(group->rank(), group->size(), "world", "staged"),
        group_(std::move(group)),
        stream_(stream) {}
  Ref<Work> start(const Call& call) override {
    CallOptions options = *call.options;
    options.stream = stream_;
    Call on_stream = call;
    on_stream.options = &options;
    return make_ref<StreamWork>(group_->start(on_stream), stream_);
  }
  void abort(std::string_view reason) noexcept override { group_->abort(reason); }
  std::exception_ptr error() const noexcept override { return group_->error(); }

 private:
  const Ref<ProcessGroup> group_;
  const Stream stream_;
};

void run_staged(int size, const std::function<void(ProcessGroup& group)>& body) {
  FakeRuntime runtime{std::size_t{1} << 40, FakeWork::kLater};
  run_groups("shm", size, [&](ProcessGroup& host) {
    const Stream stream{.device = {DeviceType::kCUDA, 0}, .handle = runtime.make_stream(0, false)};
    const auto staged = make_staged_group(Ref<ProcessGroup>(&host), runtime);
    body(*make_ref<StreamGroup>(staged, stream));
  });
}

const Backend kSolo{"solo", run_solo}, kMailbox{"mailbox", run_mailbox}, kTcp{"tcp", run_tcp},
    kShm{"shm", run_shm}, kHybrid{"hybrid", run_hybrid},
    kStaged{.name = "staged", .run = run_staged, .collectives_return = false};

auto of_sizes(const Backend& backend, std::initializer_list<int> sizes) {
  std::vector<SizedBackend> all;
  for (const int size : sizes) all.push_back({backend, size});
  return ::testing::ValuesIn(all);
}

constexpr auto kRanks = [](const ::testing::TestParamInfo<SizedBackend>& sized) {
  return std::to_string(sized.param.size);
};

INSTANTIATE_TEST_SUITE_P(solo, Conformance, of_sizes(kSolo, {1}), kRanks);
INSTANTIATE_TEST_SUITE_P(mailbox, Conformance, of_sizes(kMailbox, {1, 3}), kRanks);
INSTANTIATE_TEST_SUITE_P(tcp, Conformance, of_sizes(kTcp, {1, 2, 3, 4, 6}), kRanks);
INSTANTIATE_TEST_SUITE_P(shm, Conformance, of_sizes(kShm, {1, 2, 3, 5, 8}), kRanks);
INSTANTIATE_TEST_SUITE_P(hybrid, Conformance, of_sizes(kHybrid, {3, 4}), kRanks);
INSTANTIATE_TEST_SUITE_P(staged, Conformance, of_sizes(kStaged, {1, 3}), kRanks);

INSTANTIATE_TEST_SUITE_P(mailbox, MessageConformance, ::testing::Values(kMailbox));
INSTANTIATE_TEST_SUITE_P(tcp, MessageConformance, ::testing::Values(kTcp));
INSTANTIATE_TEST_SUITE_P(shm, MessageConformance, ::testing::Values(kShm));
INSTANTIATE_TEST_SUITE_P(hybrid, MessageConformance, ::testing::Values(kHybrid));
INSTANTIATE_TEST_SUITE_P(staged, MessageConformance, ::testing::Values(kStaged));

}  // namespace
}  // namespace dl::collectives::testing
