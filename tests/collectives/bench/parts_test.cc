// The parts of dlbench: the expected results, its reaction to a wrong result, and its output.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "collectives/bench/machine/machine.h"
#include "collectives/bench/operation/values.h"
#include "collectives/bench/run.h"
#include "collectives/call/checks.h"
#include "collectives/device/device_group.h"
#include "collectives/device/staged_group.h"
#include "collectives/nccl/nccl_group.h"
#include "collectives/reduce/reduce.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"
#include "tests/collectives/nccl/fake.h"

namespace dl::collectives::bench {
namespace {

std::string text_of(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(BenchValues, ReductionsAgreeWithTheLibraryForAllTypesAndSizes) {
  constexpr std::size_t kCount = 700;
  constexpr std::size_t kFrom = 77;
  for (std::size_t d = 0; d < kDTypeCount; ++d) {
    for (std::size_t r = 0; r < kReduceOpCount; ++r) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(r);
      try {
        check_reduction(dtype, op, "");
      } catch (const Error&) {
        continue;
      }
      for (const int ranks : {1, 2, 3, 20}) {
        std::vector<std::vector<std::byte>> shares;
        std::vector<const void*> pointers;
        for (int rank = 0; rank < ranks; ++rank) {
          fill(dtype, rank, shares.emplace_back(kCount * size_of(dtype)).data(), kCount, kFrom);
        }
        for (const auto& share : shares) pointers.push_back(share.data());
        std::vector<std::byte> theirs(kCount * size_of(dtype));
        std::vector<std::byte> ours(theirs.size());
        combine(dtype, op, theirs.data(), pointers, kCount);
        fill_reduced(dtype, op, ranks, ours.data(), kCount, kFrom);
        EXPECT_EQ(count_different(dtype, ours.data(), theirs.data(), kCount), 0U)
            << name_of(dtype) << " " << name_of(op) << " of " << ranks;
      }
    }
  }
}

TEST(BenchValues, ASliceInTheWrongPlaceOrOfTheWrongRankShows) {
  std::vector<std::byte> right(4096 * 4), shifted(right.size()), foreign(right.size());
  fill(DType::kF32, 1, right.data(), 4096, 0);
  fill(DType::kF32, 2, foreign.data(), 4096, 0);
  EXPECT_GT(count_different(DType::kF32, right.data(), foreign.data(), 4096), 2000U);
  for (const std::size_t by : {1, 5, 64, 1024, 2048}) {
    fill(DType::kF32, 1, shifted.data(), 4096, by);
    EXPECT_GT(count_different(DType::kF32, right.data(), shifted.data(), 4096), 2000U) << by;
  }
}

// An all_reduce that spoils one element.
Operation spoiled_all_reduce() {
  Operation operation = *find_operation("all_reduce");
  operation.start_own = [](ProcessGroup& group, const TimedCall& c) -> Ref<Work> {
    Ref<Work> work = find_operation("all_reduce")->start(group, c);
    work->wait();
    c.output[5 * size_of(c.dtype)] ^= std::byte{1};
    return work;
  };
  return operation;
}

struct Ending {
  int code;
  std::string text;
};

Ending run_with(const Operation& operation, std::unique_ptr<Report> (*make)(std::FILE*)) {
  const Ref<ProcessGroup> group = make_solo_group();
  Options options;
  options.operation = &operation;
  options.min_bytes = options.max_bytes = 1024;
  options.iterations = 4;
  options.warmup = 1;
  std::FILE* const file = std::tmpfile();
  std::vector<std::unique_ptr<Report>> reports;
  reports.push_back(make(file));
  const int code = run(*group, options, {"dlbench"}, reports);
  return {code, text_of(file)};
}

TEST(BenchRun, AWrongElementMeansNoBandwidthAndExitCodeOne) {
  const Operation spoiled = spoiled_all_reduce();
  const Ending table = run_with(spoiled, make_table);
  EXPECT_EQ(table.code, 1);
  // One element in each of five iterations, out of place and in place.
  EXPECT_NE(table.text.find("       -       -       5 "), std::string::npos) << table.text;
  EXPECT_NE(table.text.find("# Out of bounds values : 10 FAILED\n"), std::string::npos);
  EXPECT_NE(table.text.find("# Avg bus bandwidth    : - (results were wrong)\n"),
            std::string::npos);
  const Ending objects = run_with(spoiled, make_json_lines);
  EXPECT_EQ(objects.code, 1);
  EXPECT_NE(objects.text.find("\"algbw\": null, \"busbw\": null,"), std::string::npos)
      << objects.text;
  EXPECT_NE(objects.text.find("\"wrong\": 5}\n"), std::string::npos) << objects.text;
  EXPECT_EQ(run_with(*find_operation("all_reduce"), make_table).code, 0);
}

// An all_gather that does something in its first iteration only.
TEST(BenchRun, AnOldResultIsNotTakenForANewOne) {
  static int calls;
  Operation lazy = *find_operation("all_gather");
  lazy.start_own = [](ProcessGroup& group, const TimedCall& c) -> Ref<Work> {
    return calls++ == 0 ? find_operation("all_gather")->start(group, c) : group.barrier();
  };
  calls = 0;
  const Ending objects = run_with(lazy, make_json_lines);
  EXPECT_EQ(objects.code, 1);
  // All 256 elements in four of five iterations.
  EXPECT_NE(objects.text.find("\"wrong\": 1024}\n"), std::string::npos) << objects.text;
}

// One rank with a GPU and an NCCL that are made for tests, or with the GPU alone.
Ending run_on_gpu(const Operation& operation, bool over_nccl,
                  std::unique_ptr<Report> (*make)(std::FILE*), bool bare = false) {
  const nccl::Module table = testing::FakeNccl::table();  // outlives what `fake` waits for
  testing::FakeNccl fake;
  const Ref<ProcessGroup> group = make_device_group(
      make_solo_group(), {.timeout = std::chrono::seconds(30)},
      [&](const Ref<ProcessGroup>& host, int device, const DeviceGroupOptions& o) {
        return over_nccl ? make_nccl_group({.module = &table,
                                            .runtime = &fake.runtime,
                                            .device = device,
                                            .host = host,
                                            .timeout = o.timeout,
                                            .connect_timeout = o.timeout})
                         : make_staged_group(host, fake.runtime);
      });
  const Gpu gpu(fake.runtime, 3);
  Options options;
  options.operation = &operation;
  options.device = "cuda";
  options.bare = bare;
  options.min_bytes = options.max_bytes = 1024;
  options.iterations = 4;
  options.warmup = 1;
  options.aggregate = 2;
  std::FILE* const file = std::tmpfile();
  std::vector<std::unique_ptr<Report>> reports;
  reports.push_back(make(file));
  const int code = run(*group, options, {"dlbench"}, reports, {.gpu = &gpu, .nccl = &table});
  return {code, text_of(file)};
}

TEST(BenchOnGpu, SaysOverWhatItWentAndTimesBareNcclBesideIt) {
  const Operation& all_reduce = *find_operation("all_reduce");
  const Ending objects = run_on_gpu(all_reduce, true, make_json_lines, true);
  EXPECT_EQ(objects.code, 0);
  for (const char* part :
       {R"("backend": "nccl", "algorithm": "nccl")", R"("in_place": true)", R"("device": "cuda")",
        R"("gpu": "a fake", "shared_gpu": false, "nccl": "2.28.9")", R"("bare_us": 500.000)",
        R"("wrong": 0})"}) {
    EXPECT_NE(objects.text.find(part), std::string::npos) << part << "\n" << objects.text;
  }
  EXPECT_EQ(objects.text.find("\"host_us\": null"), std::string::npos) << objects.text;
  const Ending table = run_on_gpu(all_reduce, true, make_table, true);
  for (const char* part : {" device  3 [GPU-3] a fake\n", ", NCCL 2.28.9",
                           "by events of the stream", "     host  op_bare  ip_bare  algorithm\n"}) {
    EXPECT_NE(table.text.find(part), std::string::npos) << part << "\n" << table.text;
  }
}

TEST(BenchOnGpu, EveryOperationIsRightThroughTheHost) {
  for (const Operation& each : operations()) {
    if (!each.kind || each.name == "sendrecv") continue;  // with whom?
    const Ending objects = run_on_gpu(each, false, make_json_lines);
    EXPECT_EQ(objects.code, 0) << each.name << ": " << objects.text;
    EXPECT_NE(objects.text.find("\"backend\": \"staged\""), std::string::npos) << objects.text;
  }
  Operation idle = *find_operation("all_reduce");
  idle.start_own = [](ProcessGroup& group, const TimedCall&) { return group.barrier(); };
  const Ending objects = run_on_gpu(idle, false, make_json_lines);
  EXPECT_EQ(objects.code, 1);
  // Out of place all 256 elements of both slots in each of five iterations.
  EXPECT_NE(objects.text.find("\"wrong\": 2560}\n"), std::string::npos) << objects.text;
  EXPECT_THROW(run_on_gpu(*find_operation("all_reduce"), false, make_json_lines, true), Error);
}

// The expected lines were printed by nccl-tests' format strings; ours go on behind them.
TEST(BenchTable, BeginsWithNcclTestsColumns) {
  std::FILE* const file = std::tmpfile();
  const auto table = make_table(file);
  Options options;
  options.program = "all_reduce_perf";
  table->begin({.options = options, .name = "all_reduce", .backend = "tcp", .ranks = 2});
  const Result out{.times = {.min = 1, .p50 = 12.345, .p99 = 20, .max = 30, .mean = 13},
                   .algorithm = "ring"};
  const Result in{.times = {.min = 1, .p50 = 1234567.8, .p99 = 2e6, .max = 3e6, .mean = 1.3e6},
                  .algorithm = "ring"};
  table->row({.bytes = 1048576,
              .count = 262144,
              .dtype = DType::kF32,
              .reduction = "sum",
              .bus_factor = 1,
              .out_of_place = out,
              .in_place = in});
  table->end({.bus_bandwidth = 12.5});
  const std::string text = text_of(file);
  for (const char* line :
       {"#                                                              out-of-place               "
        "        in-place          \n",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
        "time   algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
        "(us)  (GB/s)  (GB/s)         ",
        "     1048576        262144     float     sum      -1    12.35   84.94   84.94       0  "
        "1234568    0.00    0.00       0 ",
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.5 \n#\n# Collective test "
        "concluded: all_reduce_perf\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(BenchMeasure, PercentilesAreThoseOfThePeers) {
  std::vector<double> us;
  for (int i = 200; i > 0; --i) us.push_back(i);
  const Times times = summarize(us);
  EXPECT_EQ(times.min, 1);
  EXPECT_EQ(times.p50, 101);
  EXPECT_EQ(times.p99, 199);
  EXPECT_EQ(times.max, 200);
  EXPECT_DOUBLE_EQ(times.mean, 100.5);
}

TEST(BenchMachine, ReportsMoreRanksThanCpusOnAHost) {
  RankInfo a{.rank = 0};
  a.host = {"one"};
  a.cpus[0] = 0b100011;
  RankInfo b = a;
  b.host = {"two"};
  EXPECT_EQ(cpu_list(a), "0-1,5");
  EXPECT_EQ(occupancy({a, b, b, b, b}),
            (std::vector<std::string>{"1 ranks, 3 CPUs on one",
                                      "4 ranks share 3 CPUs on two (oversubscribed)"}));
}

}  // namespace
}  // namespace dl::collectives::bench
