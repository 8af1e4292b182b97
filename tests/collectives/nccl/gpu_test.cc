// Collectives on real GPUs: two ranks as two processes, on a GPU each if there are two, else on
// one, through NCCL in its correctness mode (DLRUN_NCCL_SHARED_GPU) and through pinned memory.
// Skipped if there is no GPU.
//
// Each test starts this program once a rank, with the part of the test that ranks run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "collectives/compose/coalesced.h"
#include "collectives/device/device_group.h"
#include "collectives/tcp/tcp_group.h"
#include "collectives/tensor/tensor_api.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/module/module.h"
#include "core/device/cuda/watched_error.h"
#include "core/tensor/factories.h"
#include "rendezvous/stores/file_store.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What a rank has.
class GpuRank : public ::testing::Test {
 protected:
  void SetUp() override {
    if (store_ == nullptr) GTEST_SKIP() << "this is a part of OnGpus' tests";
    host_ = make_tcp_group({.rank = rank_, .size = 2, .store = store_.get(), .timeout = 60s});
    notices_ = make_ref<nccl::Notices>(store_.get());
    group_ = make_device_group(host_, {.timeout = 60s, .notices = notices_});
    cuda::set_device(std::stoi(variable("DLRUN_TEST_DEVICE")));
    stream_ = cuda::current_stream();
    group_->barrier({.call = call()})->synchronize(60s);
  }
  CallOptions call() const { return {.stream = stream_}; }
  Tensor numbers(double value) const {
    return full({100'003}, value, {.dtype = DType::kF32, .device = stream_.device});
  }
  static double last(const Tensor& tensor) {
    return tensor.cpu().data<float>()[tensor.numel() - 1];
  }
  SendOptions send(const Tensor& tensor) const {
    return {.buffer = tensor.data_ptr(), .count = 100'003, .peer = 1 - rank_, .call = call()};
  }
  RecvOptions receive(const Tensor& tensor) const {
    return {.buffer = tensor.data_ptr(), .count = 100'003, .peer = 1 - rank_, .call = call()};
  }

  const int rank_ = std::atoi(variable("DLRUN_TEST_RANK").c_str());
  const std::unique_ptr<rendezvous::FileStore> store_ =
      variable("DLRUN_TEST_STORE").empty()
          ? nullptr
          : std::make_unique<rendezvous::FileStore>(variable("DLRUN_TEST_STORE"));
  Ref<ProcessGroup> host_, group_;
  Ref<nccl::Notices> notices_;
  Stream stream_;
};

TEST_F(GpuRank, Calls) {
  const Tensor own = numbers(rank_ + 1), first = numbers(0), second = numbers(0);
  group_->sendrecv(send(own), receive(first))->wait(stream_);
  EXPECT_EQ(last(first), 2 - rank_);
  const Tensor twice = numbers(2 * (rank_ + 1));
  const PeerMessage all[] = {send(own), send(twice), receive(first), receive(second)};
  group_->batch(all)->wait(stream_);
  EXPECT_EQ(last(first), 2 - rank_);
  EXPECT_EQ(last(second), 2 * (2 - rank_));
  const Tensor parts[] = {own, twice};
  all_reduce_coalesced(*group_, parts)->wait(stream_);
  EXPECT_EQ(last(own), 3);
  EXPECT_EQ(last(twice), 6);
  for (const DType dtype : {DType::kU32, DType::kU64, DType::kI32}) {
    const Tensor large = full({3}, 1.0e9 + rank_, {.dtype = dtype, .device = stream_.device});
    all_reduce(*group_, large)->wait(stream_);
    EXPECT_EQ(large.to(DType::kF64).cpu().data<double>()[2], 2.0e9 + 1) << name_of(dtype);
  }
  const Tensor rows = full({3}, 0.0, {.dtype = DType::kF32, .device = stream_.device});
  const Tensor mine =
      full({rank_ + 1}, rank_ + 5.0, {.dtype = DType::kF32, .device = stream_.device});
  const std::vector<std::size_t> counts = {1, 2};
  group_
      ->all_gatherv(
          {.input = mine.data_ptr(), .output = rows.data_ptr(), .counts = counts, .call = call()})
      ->wait(stream_);
  EXPECT_EQ(rows.cpu().data<float>()[0], 5);
  EXPECT_EQ(rows.cpu().data<float>()[2], 6);
}

TEST_F(GpuRank, Launches) {
  const Tensor sum = numbers(1);
  cuda::Graph graph(cuda::runtime());
  all_reduce(*group_, sum)->wait(stream_);  // connects
  cuda::synchronize();
  graph.begin(stream_);
  CallOptions soon = call();
  soon.timeout = 5s;
  all_reduce(*group_, sum, {.call = soon})->wait(stream_);
  graph.end();
  for (int i = 0; i < 3; ++i) graph.launch(stream_);
  EXPECT_EQ(last(sum), 16);
  const auto watched =
      make_ref<cuda::WatchedError>(stream_.device.index, group_->background_error());
  if (rank_ == 0) {
    graph.launch(stream_);           // alone
    EXPECT_THROW(last(sum), Error);  // the stream continues after it, but the sum cannot be read
  }
  ASSERT_TRUE(tests::eventually(30s, [&] { return group_->error() != nullptr; }));
  try {
    std::rethrow_exception(group_->error());
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a graph's launch (1 operation, up to all_reduce"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
  }
  EXPECT_THROW(graph.launch(stream_), Error);
}

TEST_F(GpuRank, Dies) {
  const Tensor sum = numbers(1);
  all_reduce(*group_, sum)->wait(stream_);  // connects
  cuda::synchronize();
  host_->barrier()->synchronize();  // rank 0 is through with it, too
  if (rank_ == 1) ::kill(::getpid(), SIGKILL);
  try {
    all_reduce(*group_, sum, {.call = call()})->synchronize(600s);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerFailed);
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    EXPECT_THAT(error.what(), HasSubstr("is gone (its connection is "));
  }
}

TEST_F(GpuRank, LeavesEarly) {
  const Deadline patience = Deadline::after(60s);
  if (rank_ == 1) store_->get("left", patience);
  group_ = nullptr;
  if (rank_ == 0) store_->set("left", "", patience);
}

void run_ranks_of(const std::string& part, bool over_nccl, int dies = -1) {
  if (!cuda::is_available()) GTEST_SKIP() << "no CUDA device: " << cuda::unavailable_reason();
  const bool shares = cuda::device_count() < 2 || !over_nccl;
  const tests::TempDir folder;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::unique_ptr<tests::Process>> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.push_back(std::make_unique<tests::Process>(
        std::vector<std::string>{program, "--gtest_filter=GpuRank." + part},
        tests::Process::Options{
            .environment = {
                "DLRUN_TEST_RANK=" + std::to_string(r),
                "DLRUN_TEST_DEVICE=" + std::to_string(shares ? 0 : r),
                "DLRUN_TEST_STORE=" + folder.path() + "/store",
                "DLRUN_NCCL_SHARED_GPU=" + std::string(shares && over_nccl ? "1" : "0")}}));
  }
  for (const auto& rank : ranks) {
    const bool is_dead = dies >= 0 && rank == ranks[static_cast<std::size_t>(dies)];
    EXPECT_EQ(rank->wait(100s), is_dead ? 128 + SIGKILL : 0) << rank->out() << rank->err();
    EXPECT_THAT(rank->err(), over_nccl ? ::testing::Not(HasSubstr("goes through the host"))
                                       : ::testing::A<const std::string&>());
  }
}

TEST(OnGpus, CallsOverNccl) {
  run_ranks_of("Calls", true);
}
TEST(OnGpus, CallsThroughTheHost) {
  run_ranks_of("Calls", false);
}
TEST(OnGpus, LaunchesHaveADeadline) {
  run_ranks_of("Launches", true);
}
TEST(OnGpus, ADeadRankIsNamedLongBeforeTheDeadline) {
  run_ranks_of("Dies", true, 1);
}
TEST(OnGpus, ADeadRankIsNamedThroughTheHost) {
  run_ranks_of("Dies", false, 1);
}
TEST(OnGpus, ARankMayLeaveEarly) {
  run_ranks_of("LeavesEarly", true);
}

}  // namespace
}  // namespace dl::collectives
