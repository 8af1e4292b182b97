// dlbench as a user runs it, on two ranks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/bench/operation/operation.h"
#include "core/base/sanitizers.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/program.h"

namespace dl::collectives::bench {
namespace {

using Json = nlohmann::json;

using tests::program;

struct Outcome {
  std::vector<int> statuses;
  std::string output;  // rank 0's
};

Outcome run(int ranks, const std::vector<std::string>& arguments,
            const std::string& name = "dlbench") {
  const std::string port = std::to_string(tests::free_port());
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (rank == 0) ::dup2(pipe_ends[1], STDOUT_FILENO);
      ::close(pipe_ends[0]);
      ::close(pipe_ends[1]);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      ::setenv("DLRUN_PLAN", "default", 1);  // whatever this user has
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      std::string path = program(name);
      std::vector<std::string> copies = arguments;
      std::vector<char*> argv{path.data()};
      for (std::string& argument : copies) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(path.c_str(), argv.data());
      ::_exit(127);
    }
    children.push_back(child);
  }
  ::close(pipe_ends[1]);
  Outcome result;
  std::array<char, 4096> buffer{};
  for (ssize_t n; (n = ::read(pipe_ends[0], buffer.data(), buffer.size())) > 0;) {
    result.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(pipe_ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    result.statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return result;
}

TEST(Dlbench, PrintsATableAndChecksItsResults) {
  for (const Operation& operation : operations()) {
    const Outcome got = run(2, {std::string(operation.name), "-b", "8", "-e", "256K", "-f", "32",
                                "-n", "3", "-w", "1", "--backend", "tcp"});
    EXPECT_EQ(got.statuses, (std::vector<int>{0, 0})) << operation.name;
    EXPECT_NE(got.output.find("# Out of bounds values : 0 OK"), std::string::npos) << got.output;
    EXPECT_NE(got.output.find("# Avg bus bandwidth    : "), std::string::npos) << got.output;
  }
}

TEST(Dlbench, EveryTypeReductionAndRootIsRightAlsoConcurrently) {
  const Outcome reduced = run(3, {"reduce_scatter", "-b", "4K", "-e", "4K", "-n", "2", "-d", "all",
                                  "-o", "all", "-m", "3", "-u", "1"});
  EXPECT_EQ(reduced.statuses, (std::vector<int>{0, 0, 0})) << reduced.output;
  const Outcome rooted =
      run(3, {"scatter", "-b", "4K", "-e", "4K", "-n", "2", "-r", "all", "--back-to-back"});
  EXPECT_EQ(rooted.statuses, (std::vector<int>{0, 0, 0})) << rooted.output;
  EXPECT_NE(rooted.output.find("# Back to back: time is the mean"), std::string::npos);
  const Outcome bare = run(3, {"floor", "-b", "1000", "-e", "1000", "-n", "2", "-d", "int8", "-m",
                               "2", "--backend", "tcp"});
  EXPECT_EQ(bare.statuses, (std::vector<int>{0, 0, 0})) << bare.output;
}

TEST(Dlbench, ARootThatIsNoRankIsAMistakeOfTheCommandLine) {
  for (const char* root : {"2", "-1", "1x", "4294967296"}) {
    const Outcome got = run(2, {"broadcast", "-b", "8", "-e", "8", "-r", root});
    EXPECT_EQ(got.statuses, (std::vector<int>{2, 2})) << root;
  }
}

TEST(Dlbench, PrintsAnObjectASize) {
  const Outcome got = run(2, {"all_reduce", "-b", "1K", "-e", "1K", "-n", "3", "-d", "bfloat16",
                              "-o", "avg", "--json"});
  EXPECT_EQ(got.statuses, (std::vector<int>{0, 0}));
  const Json object = Json::parse(got.output.substr(0, got.output.find('\n')));
  EXPECT_EQ(object.at("op"), "all_reduce");
  EXPECT_EQ(object.at("ranks"), 2);
  EXPECT_EQ(object.at("bytes"), 1024);
  EXPECT_EQ(object.at("dtype"), "bf16");
  EXPECT_EQ(object.at("in_place"), false);
  EXPECT_EQ(object.at("wrong"), 0);
  for (const char* text : {"backend", "algorithm", "redop", "method"}) {
    EXPECT_TRUE(object.at(text).is_string()) << text;
    EXPECT_NE(object.at(text), "") << text;
  }
  for (const char* figure : {"p50_us", "p99_us", "max_us", "algbw", "busbw", "rewrite_us"}) {
    EXPECT_GE(object.at(figure).get<double>(), 0) << figure;
  }
}

TEST(Dlbench, SaysIfBuffersAreSymmetric) {
  const std::vector<std::string> command{"all_reduce", "-b",          "256K",   "-e",
                                         "256K",       "-n",          "3",      "-m",
                                         "2",          "--symmetric", "--json", "--backend"};
  const auto on = [&](const char* backend) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back(backend);
    return run(2, arguments);
  };
  const Outcome got = on("shm");
  EXPECT_EQ(got.statuses, (std::vector<int>{0, 0}));
  const Json object = Json::parse(got.output.substr(got.output.find('\n')));
  EXPECT_EQ(object.at("symmetric"), true);
  EXPECT_EQ(object.at("in_place"), true);
  EXPECT_EQ(object.at("algorithm"), "symmetric");
  EXPECT_EQ(object.at("wrong"), 0);
  EXPECT_EQ(on("tcp").statuses, (std::vector<int>{1, 1}));
}

TEST(Dlbench, PrintsCommaSeparatedValues) {
  const Outcome got = run(2, {"all_gather", "-b", "1K", "-e", "1K", "-n", "3", "--csv"});
  EXPECT_EQ(got.statuses, (std::vector<int>{0, 0}));
  EXPECT_EQ(got.output.rfind("op,backend,algorithm,ranks,bytes,", 0), 0U) << got.output;
  EXPECT_NE(got.output.find("\nall_gather,"), std::string::npos) << got.output;
}

TEST(Dlbench, IsNcclTestsUnderItsNames) {
  const std::string file = ::testing::TempDir() + "dlbench_" + std::to_string(::getpid()) + ".json";
  const Outcome got = run(2,
                          {"-b", "1024", "-e", "3072", "-i", "1024", "-n", "3", "-g", "8", "-G",
                           "2", "-a", "1", "-I", "1", "-J", file},
                          "all_reduce_perf");
  EXPECT_EQ(got.statuses, (std::vector<int>{0, 0})) << got.output;
  EXPECT_NE(got.output.find("# -g 8 has no meaning on CPUs"), std::string::npos) << got.output;
  EXPECT_NE(got.output.find("# -G 2 has no meaning on CPUs"), std::string::npos) << got.output;
  EXPECT_NE(got.output.find("# Collective test concluded: all_reduce_perf\n"), std::string::npos);
  std::ifstream written(file);
  const Json document = Json::parse(written);
  EXPECT_EQ(document.at("version"), 3);
  ASSERT_EQ(document.at("results").size(), 3U);
  EXPECT_EQ(document["results"][2]["size"], 3072);
  EXPECT_EQ(document["results"][2]["in_place"]["nwrong"], 0);
  EXPECT_EQ(document["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(document["average_bus_bandwidth"]["okay"], "unchecked");
  ::unlink(file.c_str());
}

TEST(Dlbench, FailsIfTheWantedBandwidthIsMissed) {
  ::setenv("NCCL_TESTS_MIN_BW", "1000000", 1);
  const Outcome got = run(2, {"all_reduce", "-b", "1K", "-e", "1K", "-n", "3"});
  ::unsetenv("NCCL_TESTS_MIN_BW");
  EXPECT_EQ(got.statuses, (std::vector<int>{1, 1})) << got.output;
  EXPECT_NE(got.output.find(" FAILED\n"), std::string::npos) << got.output;
}

std::vector<Json> objects_of(const std::string& output) {
  std::vector<Json> objects;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    objects.push_back(Json::parse(output.substr(at, end - at)));
    at = end + 1;
  }
  return objects;
}

TEST(Dlbench, RunsTheAlgorithmThatItIsToldUnderAPlanThatSaysSo) {
  for (const char* algorithm : {"direct", "shares", "ring", "doubling", "halving"}) {
    const Outcome got = run(4, {"all_reduce", "-b", "8", "-e", "64K", "-f", "8192", "-n", "3",
                                "--algorithm", algorithm, "--json"});
    const std::vector<Json> objects = objects_of(got.output);
    ASSERT_EQ(objects.size(), 4U) << got.output;
    for (const Json& object : objects) {
      EXPECT_EQ(object.at("algorithm"), algorithm);
      EXPECT_EQ(object.at("plan"), std::string("default+all_reduce:") + algorithm);
      EXPECT_EQ(object.at("wrong"), 0);
    }
  }
}

TEST(Dlbench, ExplainsAJobOfAnyShapeWithoutRunningIt) {
  const Outcome got = run(1, {"all_reduce", "--explain", "--ranks", "8", "--nodes", "2", "-b", "8",
                              "-e", "8M", "-f", "1048576", "--plan", "default", "--json"});
  EXPECT_EQ(got.statuses, std::vector<int>{0});
  const std::vector<Json> objects = objects_of(got.output);
  ASSERT_EQ(objects.size(), 2U) << got.output;
  EXPECT_EQ(objects[1].at("algorithm"), "ring");
  EXPECT_EQ(objects[1].at("nodes"), 2);
  EXPECT_EQ(objects[1].at("count"), 2 << 20);
  EXPECT_GT(objects[1].at("predicted_us").get<double>(), objects[0].at("predicted_us"));
  const Outcome shm = run(1, {"broadcast", "--explain", "--ranks", "2", "--backend", "shm"});
  EXPECT_NE(shm.output.find("inline"), std::string::npos) << shm.output;
  EXPECT_NE(shm.output.find("staged"), std::string::npos) << shm.output;
}

TEST(Dlbench, TunesAPlanThatRunsCanTake) {
  const std::string file = ::testing::TempDir() + "dlbench_" + std::to_string(::getpid()) + ".plan";
  const Outcome tuned = run(2, {"--tune", "-o", file});
  EXPECT_EQ(tuned.statuses, (std::vector<int>{0, 0})) << tuned.output;
  EXPECT_NE(tuned.output.find("may differ in their last bits"), std::string::npos) << tuned.output;
  const Outcome got = run(2, {"all_reduce", "-b", "8", "-e", "8", "-n", "3", "--plan", file,
                              "--backend", "tcp", "--json"});
  ::unlink(file.c_str());
  const std::vector<Json> objects = objects_of(got.output);
  ASSERT_EQ(objects.size(), 2U) << got.output;
  EXPECT_EQ(objects[0].at("plan"), "tuned");
}

TEST(Dlbench, RefusesBadArgumentsWithExitCodeTwo) {
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"all_shuffle"},
                                             {"all_reduce", "-b", "1M", "-e", "1K"},
                                             {"all_reduce", "-o", "bxor"},
                                             {"all_reduce", "-d", "f33"},
                                             {"all_reduce", "-r", "first"},
                                             {"all_reduce", "-f", "2", "-i", "1K"},
                                             {"all_reduce", "--back-to-back", "--cold"},
                                             {"all_reduce", "-n", "5", "-K", "5"},
                                             {},
                                             {"all_reduce", "--algorithm", "tree"},
                                             {"barrier", "--algorithm", "ring"},
                                             {"sendrecv", "--algorithm", "direct"},
                                             {"all_reduce", "-d", "half", "--algorithm", "ring"},
                                             {"all_reduce", "--ranks", "4"},
                                             {"all_reduce", "--device", "gpu"},
                                             {"all_reduce", "--bare"},
                                             {"broadcast", "--bare", "--device", "cuda"},
                                             {"floor", "--backend", "nccl"},
                                             {"all_reduce", "--symmetric", "--device", "cuda:1"},
                                             {"all_reduce", "--backend", "mpi", "--device", "cuda"},
                                             {"all_reduce", "-n", "-1"},
                                             {"all_reduce", "-w", "99999999999999999999"},
                                             {"all_reduce", "-b", "-1"},
                                             {"all_reduce", "-e", "2P"},
                                             {"all_reduce", "-e", "8Q"},
                                             {"all_reduce", "-K", "25"},
                                             {"all_reduce", "-J", ""},
                                             {"all_reduce", "--backend", "ib"},
                                             {"all_reduce", "--tune"}}) {
    EXPECT_EQ(run(1, bad).statuses, std::vector<int>{2})
        << (bad.empty() ? "no operation" : bad.back());
  }
  EXPECT_EQ(run(1, {"floor"}).statuses, std::vector<int>{1});  // with whom?
  EXPECT_EQ(run(1, {"all_reduce", "--explain", "--ranks", "3", "--nodes", "8"}).statuses,
            std::vector<int>{2});
}

TEST(Dlbench, EndsWithASentenceIfMemoryOrADiskIsFull) {
  const auto ends = [](const std::string& arguments, const std::string& text) {
    tests::Process job({"sh", "-c", tests::program("dlbench") + " all_reduce -n 1 " + arguments},
                       {.environment = {"RANK=0", "WORLD_SIZE=1", "DLRUN_PLAN=default"}});
    EXPECT_EQ(job.wait(std::chrono::seconds(100)), 1) << arguments;
    EXPECT_EQ(job.err(), text);
  };
  ends("--help >/dev/full", "error: write to standard output: not all of it could be written\n");
  ends("-b 8 -e 8 >/dev/full", "error: write to standard output: No space left on device\n");
  ends("-b 8 -e 8 -J /dev/full", "error: write to /dev/full: No space left on device\n");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end such a process
  ends("-b 1P -e 1P", "error: out of memory; choose a smaller -e, -m or -n\n");
#endif
}

}  // namespace
}  // namespace dl::collectives::bench
