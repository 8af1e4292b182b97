// dlbench as a user runs it, on two ranks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/bench/options.h"
#include "rendezvous/net/socket.h"

namespace dl::collectives::bench {
namespace {

std::string program() {
  return std::string(std::getenv("DLRUN_TEST_BIN")) + "/dlbench";
}

struct Outcome {
  std::vector<int> statuses;
  std::string output;  // rank 0's
};

Outcome run(int ranks, const std::vector<std::string>& arguments) {
  const std::string port = std::to_string(rendezvous::Listener::bind({.host = "127.0.0.1"}).port());
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
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      std::string path = program();
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
  for (const char* operation : {"all_reduce", "broadcast", "all_gather", "reduce_scatter"}) {
    const Outcome got =
        run(2, {operation, "-b", "8", "-e", "256K", "-f", "32", "-n", "3", "-w", "1"});
    EXPECT_EQ(got.statuses, (std::vector<int>{0, 0})) << operation;
    EXPECT_NE(got.output.find("# Out of bounds values : 0 OK"), std::string::npos) << got.output;
    EXPECT_NE(got.output.find("# Avg bus bandwidth"), std::string::npos) << got.output;
  }
}

TEST(Dlbench, PrintsAnObjectASize) {
  const Outcome got = run(2, {"all_reduce", "-b", "1K", "-e", "1K", "-n", "3", "-d", "bfloat16",
                              "-o", "avg", "--json"});
  EXPECT_EQ(got.statuses, (std::vector<int>{0, 0}));
  EXPECT_EQ(
      got.output.rfind("{\"op\": \"all_reduce\", \"backend\": \"tcp\", \"algorithm\": \"direct\", "
                       "\"ranks\": 2, \"bytes\": 1024, \"dtype\": \"bf16\", \"in_place\": false, ",
                       0),
      0u)
      << got.output;
}

TEST(Dlbench, RefusesBadArgumentsWithExitCodeTwo) {
  EXPECT_EQ(run(1, {"all_shuffle"}).statuses, std::vector<int>{2});
  EXPECT_EQ(run(1, {"all_reduce", "-b", "1M", "-e", "1K"}).statuses, std::vector<int>{2});
  EXPECT_EQ(run(1, {"all_reduce", "-o", "bxor"}).statuses, std::vector<int>{2});
}

}  // namespace
}  // namespace dl::collectives::bench
