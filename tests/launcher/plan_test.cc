#include "launcher/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/machine/this_host.h"
#include "launcher/plan/plan_text.h"
#include "launcher/plan/torch_program.h"
#include "launcher/process/start/program.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Machine kMachine{"box", {0, 1, 2, 3, 8, 9}, std::nullopt};

Options options(std::vector<std::string> arguments) {
  return std::get<Options>(parse_options(arguments));
}

std::string plan_refusal(std::vector<std::string> arguments) {
  try {
    make_plan(options(std::move(arguments)), kMachine);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(Plan, AutoIsOneRankAUsableCore) {
  EXPECT_EQ(make_plan(options({"--nproc-per-node", "auto", "x"}), kMachine).local_world_size(), 6);
  const Machine limited{"box", {0, 1, 2, 3}, 1.5};
  EXPECT_EQ(make_plan(options({"--nproc-per-node", "auto", "x"}), limited).local_world_size(), 2);
}

TEST(Plan, OpenMpThreadsAreTheCoresOverTheLocalRanks) {
  EXPECT_EQ(make_plan(options({"--nproc-per-node", "2", "x"}), kMachine).omp_num_threads, 3);
  EXPECT_EQ(make_plan(options({"--nproc-per-node", "4", "x"}), kMachine).omp_num_threads, 1);
  EXPECT_EQ(make_plan(options({"--nproc-per-node", "64", "x"}), kMachine).omp_num_threads, 1);
}

// binding_test.cc has the rules.
TEST(Plan, ABoundRankHasItsCpusAndThreads) {
  ::unsetenv("OMP_NUM_THREADS");  // what the user has set counts
  Machine machine = kMachine;
  machine.topology = read_topology(machine.cpus, "package:1 core:8 pu:2");
  const NodePlan plan =
      make_plan(options({"--bind", "even", "--nproc-per-node", "2", "x"}), machine);
  EXPECT_THAT(plan.ranks[0].binding.cpus, ElementsAre(0, 1));
  EXPECT_THAT(plan.ranks[1].binding.cpus, ElementsAre(2, 3, 8, 9));
  const std::vector<std::string> entries =
      rank_environment(plan, supposed_meeting(plan), plan.ranks[1], {});
  EXPECT_THAT(entries, Contains("OMP_NUM_THREADS=2"));
  EXPECT_THAT(entries, Contains("OMP_PLACES={2,3},{8,9}"));
  EXPECT_THAT(entries, Contains("GOMP_CPU_AFFINITY=2 8"));
  EXPECT_THAT(entries, Contains("DLRUN_CPUS=2-3,8-9"));
}

TEST(Plan, SeveralNodesAreNumberedThrough) {
  const NodePlan plan = make_plan(options({"--nnodes=3", "--node-rank=2", "--nproc-per-node=4",
                                           "--rdzv-endpoint=head:29400", "x"}),
                                  kMachine);
  const Meeting meeting = supposed_meeting(plan);
  EXPECT_EQ(meeting.world_size, 12);
  EXPECT_THAT(meeting.ranks, ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(meeting.master_addr, "head");
}

TEST(Plan, RankByNodeNumbersRanksRoundRobinAndKeepsLocalRanks) {
  const NodePlan plan = make_plan(options({"--nnodes=3", "--node-rank=1", "--nproc-per-node=2",
                                           "--rank-by=node", "--rdzv-endpoint=head:29400", "x"}),
                                  kMachine);
  const Meeting meeting = supposed_meeting(plan);
  EXPECT_THAT(meeting.ranks, ElementsAre(1, 4));
  EXPECT_THAT(rank_environment(plan, meeting, plan.ranks[1], {}),
              AllOf(Contains("RANK=4"), Contains("ROLE_RANK=4"), Contains("LOCAL_RANK=1"),
                    Contains("LOCAL_WORLD_SIZE=2"), Contains("GROUP_RANK=1")));
  EXPECT_THAT(plan_as_table({}, plan, meeting), HasSubstr("environment of rank 1\n"));
  const NodePlan alone = make_plan(options({"--rank-by=node", "-n", "3", "x"}), kMachine);
  EXPECT_THAT(supposed_meeting(alone).ranks, ElementsAre(0, 1, 2));
}

TEST(Plan, DryRunShowsWhatTheEnvironmentOfEachProgramHasOfItsOwn) {
  const NodePlan plan =
      make_plan(options({"-n2", "-x", "BOTH=1", "-x", "A=1", "x", ":", "-n2", "-x", "BOTH=1", "-x",
                         "B=2", "y", ":", "-n1", "-x", "BOTH=1", "z"}),
                kMachine);
  const std::string text = plan_as_table({}, plan, supposed_meeting(plan));
  const std::string of_y = "environment of rank 2, where it differs from that of rank 0\n";
  const std::string of_z = "environment of rank 4, where it differs from that of rank 0\n";
  ASSERT_THAT(text, AllOf(HasSubstr(of_y), HasSubstr(of_z), Not(HasSubstr("of rank 1"))));
  const std::string x = text.substr(0, text.find(of_y));
  const std::string y = text.substr(x.size(), text.find(of_z) - x.size());
  const std::string z = text.substr(text.find(of_z));
  EXPECT_THAT(x, AllOf(HasSubstr("\n  A=1\n"), HasSubstr("\n  WORLD_SIZE=5\n")));
  EXPECT_THAT(y, AllOf(HasSubstr("\n  RANK=2\n"), HasSubstr("\n  B=2\n"),
                       HasSubstr("\n  A is not set by dlrun\n"), Not(HasSubstr("WORLD_SIZE")),
                       Not(HasSubstr("BOTH"))));
  EXPECT_THAT(z, AllOf(HasSubstr("\n  RANK=4\n"), Not(HasSubstr("\n  B"))));
}

TEST(Plan, DryRunOfAJobOnHostsIsTextOrJson) {
  const Options parsed =
      options({"--hosts=a:1,b:2", "--rdzv-id=j", "-n1", "x", "1", ":", "-n2", "y"});
  const JobPlan plan = make_job_plan(parsed, HostList(parsed));
  EXPECT_EQ(hosts_plan_as_table({}, plan, "ssh"),
            "job j: 3 ranks on 2 hosts, started by ssh\n"
            "program of rank 0: x 1\nprogram of ranks 1 to 2: y\n"
            "node 0  host a  ranks 0 to 0\nnode 1  host b  ranks 1 to 2\n\nwho set what\n");
  const Setting hosts{.option = "--hosts", .value = "a:1,b:2", .by = SetBy::kLine};
  const auto json = nlohmann::json::parse(hosts_plan_as_json({hosts}, plan, "ssh"));
  EXPECT_EQ(json, nlohmann::json::parse(R"({
    "job": "j", "nnodes": 2, "world_size": 3, "starter": "ssh",
    "program": ["x", "1"], "programs": [["x", "1"], ["y"]],
    "hosts": [{"node": 0, "host": "a", "nproc_per_node": 1},
              {"node": 1, "host": "b", "nproc_per_node": 2}],
    "settings": [{"option": "--hosts", "value": "a:1,b:2", "set_by": "line", "program": null}],
    "ranks": [{"rank": 0, "local_rank": 0, "node": 0, "program": 0},
              {"rank": 1, "local_rank": 0, "node": 1, "program": 1},
              {"rank": 2, "local_rank": 1, "node": 1, "program": 1}]})"));
  JobPlan counts = plan;
  counts.hosts[1].slots = 0;  // the host counts its ranks itself
  const auto counted = nlohmann::json::parse(hosts_plan_as_json({}, counts, "srun"));
  EXPECT_TRUE(counted["world_size"].is_null() && counted["ranks"].is_null());
  EXPECT_TRUE(counted["hosts"][1]["nproc_per_node"].is_null());
}

TEST(Plan, DryRunNamesTheProgramThatASettingIsFor) {
  const tests::TempDir folder;
  const std::string file = folder.path() + "/job.app";
  std::ofstream(file) << "# the job\n-n 1 ./a\n-n 2 --wdir /tmp ./b\n";
  const auto text_of = [](const std::vector<std::string>& line) {
    const Options parsed = options(line);
    return settings_as_table(parsed.settings, parsed.job);
  };
  const std::string of_file = text_of({"--app", file, "-x", "A=1"});
  for (const std::string& line :
       {std::string("  -x {}A=1 {}line\n"), "  --np {}1 {}" + file + ":2, for ./a of rank 0\n",
        "  --wdir {}/tmp {}" + file + ":3, for ./b of ranks 1 to 2\n"}) {
    std::string pattern = line;
    for (std::size_t at; (at = pattern.find("{}")) != std::string::npos;) {
      pattern.replace(at, 2, " *");
    }
    EXPECT_THAT(of_file, testing::ContainsRegex(pattern));
  }
  const std::vector<std::string> line = {"-n1", "--role=r", "x", ":", "-n1", "x"};
  EXPECT_THAT(text_of(line), AllOf(testing::ContainsRegex("--np +1 +line, for x of rank 0\n"),
                                   testing::ContainsRegex("--np +1 +line, for x of rank 1\n"),
                                   testing::ContainsRegex("--role +r +line\n")));
  const NodePlan plan = make_plan(options(line), kMachine);
  const auto json =
      nlohmann::json::parse(plan_as_json(options(line).settings, plan, supposed_meeting(plan)));
  EXPECT_EQ(json["settings"].front()["program"], 0);
  EXPECT_EQ(json["settings"].back()["program"], 1);
}

TEST(Plan, AVariableIsUnsetIfDlrunDoesNotGiveItEither) {
  for (const char* name : {"OMP_PLACES", "OMP_PROC_BIND", "GLOO_SOCKET_IFNAME", "NOPE"}) {
    ::unsetenv(name);
  }
  const std::vector<std::string> line = {
      "-x", "NOPE", "-x", "OMP_PLACES", "-x", "GLOO_SOCKET_IFNAME", "-n1", "x"};
  NodePlan plan = make_plan(options(line), kMachine);
  EXPECT_THAT(unset_exports(plan), ElementsAre("NOPE", "OMP_PLACES", "GLOO_SOCKET_IFNAME"));
  plan.job.nnodes = 2;
  plan.ranks.front().binding.cpus = {0};
  plan.ranks.front().binding.places = {{0}};
  EXPECT_THAT(unset_exports(plan), ElementsAre("NOPE"));
}

TEST(Plan, RanksSeeThePortAtWhichTheNodesMeetIfTheUserGivesIt) {
  const auto meet = [](const std::vector<std::string>& words) {
    std::vector<std::string> line = {"--nnodes=2", "--node-rank=1"};
    line.insert(line.end(), words.begin(), words.end());
    return make_plan(options(line), kMachine);
  };
  const NodePlan plan = meet({"--master-addr=head", "--master-port=23456", "x"});
  EXPECT_EQ(plan.job.rdzv_endpoint, "head:23456");
  EXPECT_TRUE(plan.job.shares_master_port());
  EXPECT_EQ(supposed_meeting(plan).master_port, 23456);
  EXPECT_TRUE(
      meet({"--rdzv-endpoint=head:23456", "--master-port=23456", "x"}).job.shares_master_port());
  EXPECT_FALSE(
      meet({"--rdzv-endpoint=head:23457", "--master-port=23456", "x"}).job.shares_master_port());
  EXPECT_FALSE(meet({"--rdzv-endpoint=head:23456", "x"}).job.shares_master_port());
}

TEST(Plan, EndpointsThatAreNoneAreQuotedBack) {
  for (const char* bad :
       {"head:", ":1", "head:0", "head:x", "head:70000", "fe80::1:29400", "[fe80::1:29400"}) {
    EXPECT_THAT(
        plan_refusal({"--nnodes=2", "--node-rank=0", std::string("--rdzv-endpoint=") + bad, "x"}),
        AllOf(StartsWith("--rdzv-endpoint"), HasSubstr(bad)));
  }
}

TEST(Plan, RanksThatCannotBeCountedAreRefused) {
  EXPECT_EQ(
      plan_refusal({"--nnodes=1000000", "--node-rank=5", "--rdzv-endpoint=a:1",
                    "--nproc-per-node=3000", "x"}),
      "1000000 nodes (--nnodes) of 3000 ranks (--nproc-per-node) are more than 1000000 ranks");
}

TEST(Plan, JobsNamesCanBePrinted) {
  EXPECT_THAT(plan_refusal({"--rdzv-id=j\xff", "x"}), StartsWith("--rdzv-id"));
  EXPECT_THAT(plan_refusal({"--rdzv-id=two\nlines", "x"}), StartsWith("--rdzv-id"));
}

TEST(Environment, IsTorchrunsContract) {
  ::unsetenv("OMP_NUM_THREADS");
  ::unsetenv("PYTHONUNBUFFERED");
  const NodePlan plan = make_plan(
      options({"--nproc-per-node=2", "--rdzv-id=job7", "--master-port=0001", "x"}), kMachine);
  Meeting meeting;
  meeting.ranks = {0, 1};
  meeting.world_size = 2;
  meeting.master_addr = "127.0.0.1";
  meeting.master_port = 1;
  meeting.torch_store = true;
  const auto entries = rank_environment(plan, meeting, plan.ranks[1], {});
  for (const char* entry : {"RANK=1",
                            "WORLD_SIZE=2",
                            "LOCAL_RANK=1",
                            "LOCAL_WORLD_SIZE=2",
                            "GROUP_RANK=0",
                            "GROUP_WORLD_SIZE=1",
                            "ROLE_RANK=1",
                            "ROLE_WORLD_SIZE=2",
                            "ROLE_NAME=default",
                            "MASTER_ADDR=127.0.0.1",
                            "MASTER_PORT=1",
                            "TORCHELASTIC_RESTART_COUNT=0",
                            "TORCHELASTIC_MAX_RESTARTS=0",
                            "TORCHELASTIC_RUN_ID=job7",
                            "TORCHELASTIC_USE_AGENT_STORE=True",
                            "OMP_NUM_THREADS=3",
                            "PYTHONUNBUFFERED=1",
                            "DLRUN_JOB_ID=job7",
                            "DLRUN_GENERATION=0",
                            "DLRUN_NODE_ID=job7/0"}) {
    EXPECT_THAT(entries, Contains(entry));
  }
  EXPECT_THAT(entries, Contains(StartsWith("DLRUN_FOLDER=/")));
  EXPECT_THAT(entries, Contains(StartsWith("DLRUN_NETWORK=net:[")));
}

TEST(TorchProgram, MayBeWhatIsNoNativeProgram) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"python", "train.py"},
                                             {"/opt/env/bin/python3.11", "-m", "pkg.train"},
                                             {"numactl", "-N", "0", "python3", "x"},
                                             {"nice", "./run.sh"},
                                             {"sh", "-c", "exec python train.py"},
                                             {"env", "A=1", "train"}}) {
    EXPECT_TRUE(may_be_torch(words, {})) << words.front();
  }
  const tests::TempDir folder;
  const std::string script = folder.path() + "/train";
  std::ofstream(script) << "#!/usr/bin/python3\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_TRUE(may_be_torch({script}, find_program(script)));
  EXPECT_FALSE(may_be_torch({"/proc/self/exe"}, find_program("/proc/self/exe")));
  EXPECT_FALSE(may_be_torch({"true"}, find_program("true")));
  EXPECT_FALSE(
      may_be_torch({folder.path() + "/not-there"}, find_program(folder.path() + "/not-there")));
}

TEST(TorchProgram, IsServedAsItsUserSays) {
  ::setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", 1);
  EXPECT_FALSE(wants_torch_store({"python", "train.py"}, {}));
  ::setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0", 1);
  EXPECT_TRUE(wants_torch_store({"true"}, {}));
  ::unsetenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  EXPECT_TRUE(make_plan(options({"python", "train.py"}), kMachine).wants_torch_store);
  EXPECT_FALSE(make_plan(options({"true"}), kMachine).wants_torch_store);
}

// A script for `mpirun -n` reads them; dlrun's own programs and torch's must not be misled.
TEST(Environment, HasOpenMpisNamesForALineOfMpirun) {
  const auto entries_of = [](std::vector<std::string> line, const Handles& handles = {}) {
    const NodePlan plan = make_plan(options(std::move(line)), kMachine);
    Meeting meeting = supposed_meeting(plan);
    meeting.ranks = {2, 5};
    meeting.world_size = 6;
    return rank_environment(plan, meeting, plan.ranks[1], handles);
  };
  const auto none = testing::Not(Contains(StartsWith("OMPI_")));
  EXPECT_THAT(
      entries_of({"-n", "2", "x"}),
      AllOf(Contains("OMPI_COMM_WORLD_RANK=5"), Contains("OMPI_COMM_WORLD_SIZE=6"),
            Contains("OMPI_COMM_WORLD_LOCAL_RANK=1"), Contains("OMPI_COMM_WORLD_LOCAL_SIZE=2")));
  Handles pmi;
  pmi.pmi_fd = 7;
  EXPECT_THAT(entries_of({"-n", "2", "x"}, pmi), none);
  EXPECT_THAT(entries_of({"--nproc-per-node", "2", "x"}), none);
  ::setenv("DLRUN_MPIRUN_NAMES", "1", 1);
  EXPECT_THAT(entries_of({"--nproc-per-node", "2", "x"}), Contains("OMPI_COMM_WORLD_RANK=5"));
  ::setenv("DLRUN_MPIRUN_NAMES", "0", 1);
  EXPECT_THAT(entries_of({"-n", "2", "x"}), none);
  ::unsetenv("DLRUN_MPIRUN_NAMES");
}

TEST(Environment, NamesTheInterfaceThatWasGiven) {
  for (const char* const iface : {"lo", "127.0.0.1", "127.0.0.0/8"}) {
    const NodePlan plan = make_plan(options({"--iface", iface, "x"}), kMachine);
    EXPECT_THAT(rank_environment(plan, {}, plan.ranks[0], {}),
                Contains(std::string("DLRUN_IFACE=") + iface));
  }
  const NodePlan plan = make_plan(options({"x"}), kMachine);
  EXPECT_THAT(rank_environment(plan, {}, plan.ranks[0], {}),
              Not(Contains(StartsWith("DLRUN_IFACE"))));
  EXPECT_THAT(plan_refusal({"--iface", "nosuch0", "x"}),
              AllOf(StartsWith("--iface: 'nosuch0' is neither an address nor a network interface"),
                    HasSubstr("this host has: lo 127.0.0.1")));
  ::setenv("DLRUN_IFACE", "nosuch0", 1);
  EXPECT_THAT(plan_refusal({"x"}), StartsWith("DLRUN_IFACE: 'nosuch0' is neither an address nor "));
  EXPECT_EQ(make_plan(options({"--iface", "lo", "x"}), kMachine).meet.iface, "lo");
  ::unsetenv("DLRUN_IFACE");
}

TEST(Environment, TheUsersChoicesWin) {
  ::setenv("OMP_NUM_THREADS", "5", 1);
  ::setenv("PYTHONUNBUFFERED", "x", 1);
  const NodePlan plan = make_plan(options({"x"}), kMachine);
  const auto entries = rank_environment(plan, Meeting{}, plan.ranks[0], {});
  EXPECT_THAT(entries, Not(Contains(StartsWith("OMP_NUM_THREADS="))));
  EXPECT_THAT(entries, Not(Contains(StartsWith("PYTHONUNBUFFERED="))));
  ::unsetenv("OMP_NUM_THREADS");
  ::unsetenv("PYTHONUNBUFFERED");
}

TEST(Port, IsBelowTheEphemeralRangeAndFree) {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  for (int i = 0; i < 20; ++i) {
    const std::uint16_t port = choose_port();
    EXPECT_LT(port, first);
    EXPECT_GE(port, 1024);
  }
}

TEST(Port, ThatAProcessListensOnIsNotFree) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  socklen_t size = sizeof here;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size);
  const std::uint16_t port = ntohs(here.sin_port);
  EXPECT_EQ(port_obstacle(port), EADDRINUSE);
  const NodePlan plan = make_plan(options({"--master-port", std::to_string(port), "x"}), kMachine);
  try {
    supposed_meeting(plan);
    ADD_FAILURE() << "took a port that is taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--master-port " + std::to_string(port) + " is taken"));
  }
}

TEST(Port, ThatOnlyRootMayListenOnIsNotSaidToBeTaken) {
  enum Status { kSaid, kNotSaid, kAllowed };
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr int kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(kAllowed);
    if (port_obstacle(1) != EACCES) ::_exit(kAllowed);
    try {
      supposed_meeting(make_plan(options({"--master-port", "1", "x"}), kMachine));
    } catch (const Error& error) {
      const std::string_view text = error.what();
      const bool is_said = text.starts_with(
          "--master-port 1 may not be listened on by this user on box; give another");
      ::_exit(is_said ? kSaid : kNotSaid);
    }
    ::_exit(kNotSaid);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kAllowed) GTEST_SKIP() << "every user may listen on every port here";
  EXPECT_EQ(WEXITSTATUS(status), kSaid);
}

}  // namespace
}  // namespace dl::launcher
