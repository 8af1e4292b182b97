// Two hosts with two ranks each: what an all_reduce sends between them, and what happens if a rank
// dies inside one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "rendezvous/net/handshake/job_key.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl {
namespace {

constexpr int kRanks = 4;
constexpr std::size_t kCount = 4 << 20;
constexpr int kTimes = 4;
// Ethernet, IPv4, and TCP with its time stamps.
constexpr double kHeaderBytes = 14 + 20 + 32;

void enter_network(const std::string& name) {
  const int fd = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  DL_CHECK(fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0, kIo, "cannot enter {}", name);
  ::close(fd);
}

// Bytes that have left this host, less the headers.
double bytes_sent() {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find("eth0:");
    if (colon == std::string::npos) continue;
    std::istringstream fields(line.substr(colon + 5));
    double field[10] = {};  // 8 of what came, then bytes and packets sent
    for (double& value : field) fields >> value;
    return field[8] - field[9] * kHeaderBytes;
  }
  return -1;
}

using Body = int (*)(collectives::ProcessGroup& group);

// A pipe whose writing end every rank holds until its body is over. The ranks of both hosts see
// each other's processes: one that ended first would be a cause of its own for those that still
// wait.
struct LastWord {
  int read_end, write_end;

  void await_all() const {
    ::close(write_end);
    char byte;
    while (::read(read_end, &byte, 1) < 0 && errno == EINTR) {
    }
  }
};

// `method`: of the init. 0: all is well; 4: not the backend that auto must find.
int run_rank(const tests::TwoHosts& hosts, const std::string& key_file, const std::string& method,
             int rank, Body body, const LastWord& last_word) {
  const int host = rank / 2;
  enter_network(hosts.name(host));
  ::setenv("DLRUN_NODE_ID", hosts.name(host).c_str(), 1);
  ::setenv("DLRUN_KEY_FILE", key_file.c_str(), 1);
  init_process_group({.init_method = method,
                      .rank = rank,
                      .world_size = kRanks,
                      .timeout = std::chrono::seconds(60)});
  if (default_group()->backend() != "hybrid") return 4;
  const int status = body(*default_group());
  last_word.await_all();
  destroy_process_group();
  return status;
}

// Runs a rank a process; their statuses as waitpid() gives them. The ranks meet at the first host,
// or in a directory.
std::vector<int> run_ranks(const tests::TwoHosts& hosts, Body body, bool in_directory = false) {
  const tests::TempDir directory;
  const std::string key_file = directory.path() + "/key";
  const std::string method = in_directory ? "file://" + directory.path() + "/meet"
                                          : "tcp://" + hosts.address(0) + ":29500";
  rendezvous::JobKey::generate().write_file(key_file);
  int ends[2];
  DL_CHECK(::pipe(ends) == 0, kIo, "pipe");
  const LastWord last_word{ends[0], ends[1]};
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 125;
      try {
        status = run_rank(hosts, key_file, method, rank, body, last_word);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::fflush(stdout);
      ::_exit(status);
    }
    children.push_back(child);
  }
  for (const int end : ends) ::close(end);
  std::vector<int> statuses(children.size());
  for (std::size_t i = 0; i < children.size(); ++i) ::waitpid(children[i], &statuses[i], 0);
  return statuses;
}

// 2: wrong sums; 3: too many bytes.
int count_bytes(collectives::ProcessGroup& group) {
  std::vector<float> x(kCount, 1.0f);
  group.barrier()->wait();
  const double before = bytes_sent();
  for (int i = 0; i < kTimes; ++i) {
    group.all_reduce({.input = x.data(), .output = x.data(), .count = kCount})->wait();
  }
  group.barrier()->wait();
  const double sent = bytes_sent() - before;
  for (const float value : x) {
    if (value != 256.0f) return 2;  // four ranks, four times
  }
  // 2 (h-1)/h of the buffer with h = 2 hosts.
  const double least = static_cast<double>(kTimes * kCount * sizeof(float));
  std::printf("rank %d's host sent %.4f times the least\n", group.rank(), sent / least);
  group.barrier()->wait();
  return sent > 0.9 * least && sent <= 1.02 * least ? 0 : 3;
}

TEST(TwoHostsWithTwoRanksEach, SendNoMoreThanAnAllReduceMust) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(run_ranks(tests::TwoHosts(), count_bytes), (std::vector<int>{0, 0, 0, 0}));
}

// Sums until that fails; `disturb` happens to the fourth sum on one rank. 2: no error; 3: not a
// failed peer, or a text without `wanted`.
int sum_until_it_fails(collectives::ProcessGroup& group, int disturber, void (*disturb)(),
                       const char* wanted) {
  std::vector<float> x(kCount, 1.0f);
  try {
    for (int i = 0; i < 1000; ++i) {
      const auto work = group.all_reduce({.input = x.data(), .output = x.data(), .count = kCount});
      if (i == 3 && group.rank() == disturber) disturb();
      work->wait();
    }
  } catch (const Error& error) {
    const bool says_it = std::string(error.what()).find(wanted) != std::string::npos;
    if (error.kind() == ErrorKind::kPeerFailed && says_it) return 0;
    std::fprintf(stderr, "rank %d: %s\n", group.rank(), error.what());
    return 3;
  }
  return 2;
}

int sum_until_one_dies(collectives::ProcessGroup& group) {
  return sum_until_it_fails(group, 3, [] { ::raise(SIGKILL); }, "rank 3 (");
}

TEST(TwoHostsWithTwoRanksEach, AllNameTheRankThatDiesInAnAllReduce) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(run_ranks(tests::TwoHosts(), sum_until_one_dies), (std::vector<int>{0, 0, 0, SIGKILL}));
}

int sum_until_the_cable_is_cut(collectives::ProcessGroup& group) {
  const auto cut = [] {
    if (std::system("ip link set eth0 down") != 0) ::_exit(5);
  };
  return sum_until_it_fails(group, 0, cut, "cannot be reached");
}

TEST(TwoHostsWithTwoRanksEach, AllSayThatACutCableLeadsNowhere) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(run_ranks(tests::TwoHosts(), sum_until_the_cable_is_cut),
            (std::vector<int>{0, 0, 0, 0}));
}

// 2: a wrong sum.
int sum_once(collectives::ProcessGroup& group) {
  int x = 1;
  group.all_reduce({.input = &x, .output = &x, .count = 1, .dtype = DType::kI32})->wait();
  return x == kRanks ? 0 : 2;
}

// A directory says nothing of the way to the other host.
TEST(TwoHostsWithTwoRanksEach, ConnectIfTheyMeetInADirectory) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(run_ranks(tests::TwoHosts(), sum_once, /*in_directory=*/true),
            (std::vector<int>{0, 0, 0, 0}));
}

// The first address of the first host's interface swallows what is sent to it; the second is known
// on both hosts, and leads either to itself.
TEST(TwoHostsWithTwoRanksEach, FindTheAddressThatWorks) {
  if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  const tests::TwoHosts hosts;
  hosts.ip(0, "address flush dev eth0 scope global");
  hosts.ip(0, "address add 10.9.0.1/32 dev eth0");
  hosts.ip(0, "address add 10.8.0.1/32 dev eth0");
  hosts.ip(0, "address add fd00::1/64 dev eth0 nodad");
  hosts.ip(0, "address add 10.0.0.1/24 dev eth0");
  hosts.ip(1, "address add 10.8.0.1/32 dev lo");
  hosts.ip(1, "address add fd00::2/64 dev eth0 nodad");
  hosts.ip(1, "route add 10.9.0.1/32 dev eth0");
  hosts.ip(1, "neighbour add 10.9.0.1 lladdr 02:00:00:00:00:99 dev eth0");
  ::setenv("DLRUN_IFACE", "eth0", 1);
  const std::vector<int> statuses = run_ranks(hosts, sum_once);
  ::unsetenv("DLRUN_IFACE");
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace dl
