// Lines as users of torchrun and mpirun type them, and what they mean here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "launcher/cli/line_prefix.h"
#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Options line(std::vector<std::string> words) {
  return std::get<Options>(parse_options(words));
}

std::string line_refusal(std::vector<std::string> words) {
  try {
    line(std::move(words));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(LaunchLines, APythonProgramGetsAnInterpreter) {
  ::unsetenv("PYTHON_EXEC");
  const Options script = line({"train.py", "--lr", "1"});
  EXPECT_THAT(script.job.apps.front().program,
              ElementsAre("python3", "-u", "train.py", "--lr", "1"));
  EXPECT_EQ(script.job.apps.front().script, "train.py");
  const Options module = line({"-m", "pkg.train", "-m"});
  EXPECT_THAT(module.job.apps.front().program,
              ElementsAre("python3", "-u", "-m", "pkg.train", "-m"));
  EXPECT_EQ(module.job.apps.front().script, "");
  EXPECT_THAT(line({"--run-path", "--no-python", "/a/script"}).job.apps.front().program,
              ElementsAre("python3", "-u", "/a/script"));
  EXPECT_THAT(line({"--no-python", "./train.py"}).job.apps.front().program,
              ElementsAre("./train.py"));
  EXPECT_THAT(line({"./train"}).job.apps.front().program, ElementsAre("./train"));
  EXPECT_THAT(line_refusal({"--no-python", "-m", "pkg"}), HasSubstr("leave one of them out"));
  ::setenv("PYTHON_EXEC", "/opt/python", 1);
  EXPECT_THAT(line({"train.py"}).job.apps.front().program,
              ElementsAre("/opt/python", "-u", "train.py"));
  ::unsetenv("PYTHON_EXEC");
}

TEST(LaunchLines, TorchtitansRunsAsItStands) {
  const Options titan =
      line({"--nproc_per_node=2", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0",
            "--local-ranks-filter", "0", "--role", "rank", "--tee", "3", "-m", "pkg", "--args"});
  EXPECT_EQ(titan.job.nproc_per_node, "2");
  EXPECT_EQ(titan.job.role, "rank");
  EXPECT_THAT(titan.output.local_ranks_filter, ElementsAre(0));
  EXPECT_EQ(titan.output.tee.of(1), (Streams{true, true}));
  EXPECT_THAT(titan.job.apps.front().program, ElementsAre("python3", "-u", "-m", "pkg", "--args"));
}

TEST(LaunchLines, AnEndpointWithoutAPortHasTorchruns) {
  const auto endpoint = [](const std::string& text) {
    return line({"--nnodes=2", "--rdzv-endpoint=" + text, "x"}).meet.rdzv_endpoint;
  };
  EXPECT_EQ(endpoint("node0"), "node0:29400");
  EXPECT_EQ(endpoint("[fe80::1]"), "[fe80::1]:29400");
  EXPECT_EQ(endpoint("node0:1"), "node0:1");
  EXPECT_EQ(line({"--master-addr=[::1]", "x"}).meet.master_addr, "::1");
}

TEST(LaunchLines, RdzvConfSaysTheTimeoutAndWhoListens) {
  EXPECT_EQ(line({"--rdzv-conf", "timeout=5", "x"}).meet.join_timeout, 5s);
  EXPECT_EQ(
      line({"--rdzv-conf", "timeout=5,join_timeout=6,read_timeout=60", "x"}).meet.join_timeout, 6s);
  EXPECT_EQ(line({"--join-timeout=4", "--rdzv-conf=timeout=5", "x"}).meet.join_timeout, 4s);
  EXPECT_THAT(line_refusal({"--rdzv-conf=is_host=perhaps", "x"}),
              HasSubstr("--rdzv-conf: is_host is `perhaps`, wanted true or false"));
  EXPECT_THAT(line_refusal({"--rdzv-conf=nproc=2", "x"}), HasSubstr("has no `nproc`"));
  EXPECT_THAT(line_refusal({"--rdzv-conf=timeout", "x"}), HasSubstr("`timeout` is no KEY=VALUE"));
  EXPECT_THAT(line_refusal({"--rdzv-conf=timeout=soon", "x"}),
              HasSubstr("--rdzv-conf: timeout is `soon`"));
}

TEST(LaunchLines, StreamsAreChosenForAllRanksOrForSingleOnes) {
  const Options some = line({"-r", "0:3,11:1", "-t", "0:2", "--log-dir=d", "x"});
  EXPECT_EQ(some.output.redirects.of(0), (Streams{true, true}));
  EXPECT_EQ(some.output.redirects.of(1), Streams());
  EXPECT_EQ(some.output.redirects.of(11), (Streams{true, false}));
  EXPECT_EQ(some.output.tee.of(0), (Streams{false, true}));
  for (const char* bad : {"4", "-1", "0:4", "0:1,", "a:1", "0", "01"}) {
    const std::string said = line_refusal({std::string("--redirects=") + bad, "x"});
    EXPECT_TRUE(said.starts_with("--redirects") == (std::string(bad) != "0"))
        << bad << ": " << said;
  }
  EXPECT_EQ(line_refusal({"--redirects=2", "x"}),
            "--redirects is `2`: give --log-dir DIR, or what is not shown is kept nowhere");
  EXPECT_EQ(line({"--log-dir=/dev/null", "x"}).output.log_dir, "");
  EXPECT_THAT(line_refusal({"--local-ranks-filter=0,x", "x"}),
              HasSubstr("--local-ranks-filter: local rank is `x`"));
}

TEST(LaunchLines, SignalsAreNamesOfSignalsThatCanBeHandled) {
  EXPECT_THAT(line({"--signals-to-handle", "SIGTERM, SIGUSR1", "x"}).end.signals_to_handle,
              ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_THAT(line_refusal({"--signals-to-handle=SIGUSR", "x"}),
              HasSubstr("there is no signal `SIGUSR`; wanted names as SIGTERM,SIGUSR1"));
  EXPECT_THAT(line_refusal({"--signals-to-handle=SIGKILL", "x"}), HasSubstr("leave it out"));
}

TEST(LaunchLines, SignalsThatArePassedOnEndNothing) {
  const Options job = line({"--forward-signals", "USR1, SIGALRM,40", "x"});
  EXPECT_THAT(job.end.forwarded_signals, ElementsAre(SIGUSR1, SIGALRM, 40));
  EXPECT_EQ(job.end.meaning_of(SIGUSR1), SignalMeaning::kForward);
  EXPECT_EQ(job.end.meaning_of(SIGTERM), SignalMeaning::kEndJob);
  for (const char* bad : {"TERM", "INT", "HUP", "QUIT", "KILL", "STOP", "CONT", "TSTP", "CHLD",
                          "WINCH", "PIPE", "SEGV"}) {
    EXPECT_THAT(line_refusal({"--forward-signals", bad, "x"}),
                HasSubstr(std::string(": SIG") + bad + " cannot be passed on: "));
  }
  for (const char* bad : {"", "NONE", "0", "65", "USR1,"}) {
    EXPECT_THAT(line_refusal({std::string("--forward-signals=") + bad, "x"}),
                StartsWith("--forward-signals "));
  }
  EXPECT_THAT(line_refusal({"--forward-signals=USR2", "--preempt-usr2", "x"}),
              HasSubstr("--preempt-usr2 takes it"));
  EXPECT_THAT(line_refusal({"--forward-signals=USR1", "--signals-to-handle=SIGUSR1", "x"}),
              HasSubstr("--signals-to-handle names it too"));
}

TEST(LaunchLines, OptionsWithoutAnEffectStillHaveToBeRight) {
  EXPECT_EQ(line_refusal({"--monitor-interval=0.5", "--start-method=fork", "--max-restarts=0",
                          "--event-log-handler=null", "--tag-output", "x"}),
            "accepted");
  EXPECT_THAT(line_refusal({"--monitor-interval=often", "x"}), StartsWith("--monitor-interval is"));
  EXPECT_THAT(line_refusal({"--start-method=thread", "x"}),
              StartsWith("--start-method is `thread`"));
  EXPECT_THAT(line_refusal({"--event-log-handler=console", "x"}), HasSubstr("no such handler"));
  EXPECT_EQ(line({"--max-restarts", "3", "x"}).end.max_restarts, 3);
  EXPECT_THAT(line_refusal({"--max-restarts", "-1", "x"}), HasSubstr("--max-restarts is `-1`"));
  EXPECT_EQ(line({"--mpi", "none", "x"}).job.mpi, Mpi::kNone);
  EXPECT_EQ(line({"--mpi", "pmix", "x"}).job.mpi, Mpi::kPmix);
  EXPECT_THAT(line_refusal({"--mpi", "pmi2", "x"}),
              HasSubstr("--mpi is `pmi2`, wanted auto, pmi1, pmix or none"));
  EXPECT_THAT(line_refusal({"--mpi", "pmi1", "--nnodes", "2", "x"}),
              HasSubstr("--mpi pmi1 serves one node, but --nnodes is 2"));
  EXPECT_THAT(line_refusal({"--nnodes", "1:4", "x"}), HasSubstr("--nnodes is `1:4`"));
  EXPECT_THAT(line_refusal({"--rdzv_backend=etcd", "x"}), HasSubstr("--rdzv-backend is `etcd`"));
  EXPECT_THAT(line_refusal({"--grace=1", "--shutdown-timeout=2", "x"}),
              HasSubstr("are one setting"));
}

TEST(LaunchLines, RanksOfTheWholeJobAreSharedByTheNodes) {
  EXPECT_EQ(line({"-np", "3", "x"}).job.nproc_per_node, "3");
  EXPECT_EQ(line({"-n", "8", "--nnodes=2", "--rdzv-endpoint=a", "x"}).job.nproc_per_node, "4");
  EXPECT_THAT(line_refusal({"-n", "3", "--nnodes=2", "--rdzv-endpoint=a", "x"}),
              HasSubstr("2 nodes (--nnodes) cannot share that many ranks equally"));
  EXPECT_THAT(line_refusal({"-n", "3", "--nproc-per-node=2", "x"}), HasSubstr("leave one of them"));
  EXPECT_EQ(line({"-n", "2", "--nproc-per-node=2", "x"}).job.nproc_per_node, "2");
  EXPECT_THAT(line_refusal({"-n", "0", "x"}), StartsWith("--np is `0`, wanted a whole number"));
}

TEST(LaunchLines, HostsHaveSlotsInOpenMpisFormAndInMpichs) {
  using H = HostSlots;
  EXPECT_THAT(line({"--hosts", "a:4,b:2,[fe80::1]:3,c", "x"}).where.hosts,
              ElementsAre(H{"a", 4}, H{"b", 2}, H{"fe80::1", 3}, H{"c", std::nullopt}));
  EXPECT_THAT(line({"-H", "a,b,a", "x"}).where.hosts, ElementsAre(H{"a", 2}, H{"b", std::nullopt}));
  EXPECT_EQ(line({"--host", "a:4", "x"}).job.nproc_per_node, "4");
  EXPECT_EQ(line({"--host", "a:4", "-n", "2", "x"}).job.nproc_per_node, "2");
  EXPECT_EQ(line_refusal({"--host", "a:4", "-n", "5", "x"}),
            "--np is 5, and a has 4 slots; write a:5");
  for (const char* bad : {"a:0", "a:x", "a,,b", "[a", ":2", "a b"}) {
    EXPECT_THAT(line_refusal({"--hosts", bad, "x"}), StartsWith("--hosts")) << bad;
  }
  const tests::TempDir folder;
  const auto file = [&](const std::string& text) {
    std::ofstream(folder.path() + "/hosts") << text;
    return folder.path() + "/hosts";
  };
  EXPECT_THAT(
      line({"--hostfile", file("# the cluster\na slots=4 max-slots=8\nb:2 # rack 2\n\nc\n"), "x"})
          .where.hosts,
      ElementsAre(H{"a", 4}, H{"b", 2}, H{"c", std::nullopt}));
  EXPECT_THAT(line_refusal({"--hostfile", file("a\nb rack=2\n"), "x"}),
              HasSubstr("/hosts:2: `rack=2` is not supported; wanted slots=N"));
  for (const char* twice : {"a:22 slots=1", "a slots=2 slots=2", "a max-slots=4 max_slots=5"}) {
    EXPECT_THAT(line_refusal({"--hostfile", file(twice), "x"}),
                HasSubstr("gives a another number of slots, beside "))
        << twice;
  }
  EXPECT_THAT(line_refusal({"--hostfile", file("a slots=5 max-slots=4"), "x"}),
              HasSubstr("/hosts:1: a has 5 slots, and max-slots=4"));
  EXPECT_THAT(line_refusal({"--hostfile", file("a slots=1 max-slots=many"), "x"}),
              HasSubstr("/hosts:1: max-slots is `many`"));
  EXPECT_THAT(line_refusal({"--hostfile", file("# none\n"), "x"}), HasSubstr("names no host"));
  EXPECT_THAT(line_refusal({"--hostfile", "/nowhere", "x"}),
              StartsWith("--hostfile /nowhere: No such file"));
  EXPECT_THAT(
      line_refusal({"--hosts=a,b", "--nnodes=2", "x"}),
      StartsWith("--hosts starts the whole job from here, and --nnodes is 2: leave one of "));
}

TEST(LaunchLines, VariablesAreSetOrPassedOn) {
  ::setenv("MASTER_ADDR", "machine1", 1);
  const Options book = line({"-x", "MASTER_ADDR", "-x", "MASTER_PORT=12345", "--np", "2", "-x",
                             "A=", "-x", "B=1", "-x", "B=x=y", "-x", "C", "python", "t.py"});
  ::unsetenv("MASTER_ADDR");
  EXPECT_EQ(book.meet.master_addr, "machine1");
  EXPECT_EQ(book.meet.master_port, 12345);
  EXPECT_THAT(book.job.apps.front().exports,
              ElementsAre(Exported{"A", ""}, Exported{"B", "x=y"}, Exported{"C", std::nullopt}));
  EXPECT_THAT(book.job.apps.front().program, ElementsAre("python", "t.py"));
  for (const char* own : {"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                          "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "DLRUN_NODE_ID"}) {
    ::unsetenv(own);
    EXPECT_THAT(line({"-x", own, "x"}).job.apps.front().exports, IsEmpty()) << own;
  }
  ::setenv("RANK", "7", 1);
  EXPECT_THAT(line({"-x", "RANK", "x"}).job.apps.front().exports, IsEmpty());
  ::unsetenv("RANK");
  EXPECT_THAT(line_refusal({"-x", "RANK=1", "x"}),
              HasSubstr("dlrun gives each rank a RANK of its own"));
  for (const char* bad : {"=1", "A,B", "1A", "A*"}) {
    EXPECT_THAT(line_refusal({"-x", bad, "x"}), StartsWith("-x is `")) << bad;
  }
}

TEST(LaunchLines, AllProgramsHaveOneMasterAddressAndPort) {
  const Options same = line(
      {"-n1", "-x", "MASTER_PORT=7", "a", ":", "-n1", "-x", "MASTER_PORT=7", "b", ":", "-n1", "c"});
  EXPECT_EQ(same.meet.master_port, 7);
  EXPECT_THAT(line_refusal({"-n1", "a", ":", "-n1", "-x", "MASTER_PORT=7", "b"}),
              StartsWith("-x MASTER_PORT=7 is given to one program, but all programs of a job have "
                         "the same MASTER_PORT, here the one that dlrun chooses"));
  EXPECT_THAT(line_refusal({"-n1", "--master-port=6", "a", ":", "-n1", "-x", "MASTER_PORT=7", "b"}),
              HasSubstr("the same MASTER_PORT, here 6; give it with the first program"));
  EXPECT_THAT(
      line_refusal({"-n1", "-x", "MASTER_ADDR=h", "a", ":", "-n1", "-x", "MASTER_ADDR=i", "b"}),
      HasSubstr("the same MASTER_ADDR, here h; "));
}

TEST(LaunchLines, ATimeoutIsMoreThanNothing) {
  EXPECT_EQ(line({"--timeout", "0.5", "x"}).end.timeout, 500ms);
  EXPECT_THAT(line_refusal({"--timeout=0", "x"}), HasSubstr("wanted more than 0 seconds"));
}

TEST(LaunchLines, BindingHasMpirunsNamesToo) {
  const Options bound = line({"--bind-to", "numa", "--map-by", "socket", "--report-bindings", "x"});
  EXPECT_EQ(bound.where.bind, Bind::kNuma);
  EXPECT_EQ(bound.where.map_by, MapBy::kSocket);
  EXPECT_TRUE(bound.where.report_bindings);
  EXPECT_EQ(line({"--bind", "even", "x"}).where.bind, Bind::kEven);
  EXPECT_EQ(line({"--rank-by", "node", "x"}).where.rank_by, rendezvous::RankBy::kNode);
  EXPECT_EQ(line({"--bind-to", "core", "--map-by", "slot", "x"}).where.map_by, MapBy::kCore);
  EXPECT_EQ(line_refusal({"--map-by", "node", "x"}),
            "--map-by is `node`: write --rank-by node, which numbers the ranks so");
  EXPECT_EQ(line_refusal({"--map-by", "board", "x"}),
            "--map-by is `board`, wanted slot, core, numa, socket or ppr:N:node");
  EXPECT_EQ(line_refusal({"--rank-by", "host", "x"}), "--rank-by is `host`, wanted slot or node");
  EXPECT_EQ(line_refusal({"--rank-by", "core", "x"}),
            "--rank-by is `core`, wanted slot or node; --map-by says which cores the ranks of a "
            "node take");
  EXPECT_EQ(line({"--on-failure", "keep", "x"}).end.on_failure, rendezvous::OnFailure::kKeep);
  EXPECT_EQ(line({"x"}).end.on_failure, rendezvous::OnFailure::kStop);
  EXPECT_EQ(line({"--torch-backend=dlrun", "x"}).job.torch_backend, TorchBackend::kDlrun);
  EXPECT_FALSE(line({"x"}).job.torch_backend);
  EXPECT_EQ(line_refusal({"--torch-backend=mpi", "x"}),
            "--torch-backend is `mpi`, wanted gloo or dlrun");
  EXPECT_EQ(line_refusal({"--on-failure=go", "x"}), "--on-failure is `go`, wanted stop or keep");
  EXPECT_THAT(line_refusal({"--map-by=core", "x"}), HasSubstr("give --bind or --bind-to"));
  EXPECT_THAT(line_refusal({"--bind=core", "--bind-to=core", "x"}), HasSubstr("are one setting"));
}

TEST(LaunchLines, PprCountsTheRanksOfEachNode) {
  const auto slots = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--map-by", "ppr:2:node", "x"});
    const Options options = line(words);
    std::vector<int> counted;
    const JobPlan plan = options.where.hosts.empty()
                             ? make_job_plan(options, ThisMachine(options, Machine()))
                             : make_job_plan(options, HostList(options));
    for (const Host& host : plan.hosts) counted.push_back(host.slots);
    return counted;
  };
  EXPECT_THAT(slots({}), ElementsAre(2));
  EXPECT_THAT(slots({"-n", "1"}), ElementsAre(1));
  EXPECT_THAT(slots({"--hosts=a,b:4"}), ElementsAre(2, 2));
  EXPECT_THAT(slots({"--hosts=a,b,c", "-n", "5"}), ElementsAre(2, 2, 1));
  EXPECT_TRUE(has_mpirun_names(line({"--map-by=ppr:2:node", "x"})));
  EXPECT_THROW(slots({"-n", "3"}), Error);
  const auto refused = [](const std::string& value, std::vector<std::string> words = {}) {
    words.insert(words.end(), {"--map-by=" + value, "x"});
    return line_refusal(words);
  };
  EXPECT_EQ(refused("ppr:2:socket"),
            "--map-by is `ppr:2:socket`: dlrun counts the ranks of a node, not of a socket; write "
            "ppr:N:node, and what each rank runs on in --bind");
  for (const char* const bad : {"ppr:2", "ppr:", "ppr:2:node:pe=2"}) {
    EXPECT_THAT(refused(bad), HasSubstr("wanted ppr:N:node")) << bad;
  }
  for (const char* const bad : {"ppr:0:node", "ppr:x:node", "ppr::node", "ppr:-1:node"}) {
    EXPECT_THAT(refused(bad), HasSubstr("wanted a whole number from 1")) << bad;
  }
  EXPECT_EQ(refused("ppr:2:node", {"--nproc-per-node=2"}),
            "--nproc-per-node and --map-by ppr:2:node both count the ranks of a node; leave one of "
            "them out");
  EXPECT_EQ(refused("ppr:2:node", {"--hosts=a:1,b:2"}),
            "--map-by ppr:2:node puts 2 ranks on each node, and a has 1 slot");
  EXPECT_EQ(refused("ppr:2:node", {"--hosts=a,b", "-n", "5"}),
            "--np is 5, and --map-by ppr:2:node puts at most 2 on each of 2 hosts");
}

TEST(LaunchLines, OutputFilenameIsMpirunsNameOfLogDir) {
  EXPECT_EQ(line({"--output-filename", "out", "x"}).output.log_dir, "out");
  EXPECT_TRUE(line({"--output-filename=out:nojobid", "x"}).output.shown_streams(0).out);
  const Options quiet = line({"--output-filename=a:b:nocopy,nojobid", "x"});
  EXPECT_EQ(quiet.output.log_dir, "a:b");
  EXPECT_EQ(quiet.output.shown_streams(0), Streams());
  EXPECT_EQ(line_refusal({"--output-filename=out:once", "x"}),
            "--output-filename is `out:once`, wanted DIR or DIR:nocopy");
  EXPECT_THAT(line_refusal({"--output-filename=:nocopy", "x"}), HasSubstr("wanted DIR"));
  EXPECT_THAT(line_refusal({"--output-filename=a", "--log-dir=b", "x"}),
              HasSubstr("are one setting"));
}

TEST(LaunchLines, VirtualLocalRanksSeeTheirOwnGpu) {
  EXPECT_EQ(line({"--virtual-local-rank", "x"}).where.gpu_policy, GpuPolicy::kScope);
  EXPECT_THAT(line_refusal({"--virtual-local-rank", "--gpu-policy=keep", "x"}),
              HasSubstr("leave one of them out"));
}

TEST(LinePrefix, NamesAreReplacedAsPythonsTemplatesDo) {
  const PrefixFacts facts{.role_name = "trainer", .rank = 5, .local_rank = 1, .hostname = "box"};
  EXPECT_EQ(line_prefix_of("[${role_name}${local_rank}]:", facts), "[trainer1]:");
  EXPECT_EQ(line_prefix_of("$hostname:$rank: ", facts), "box:5: ");
  EXPECT_EQ(line_prefix_of("$$rank $ ${rank ${other} $other $ranks", facts),
            "$rank $ ${rank ${other} $other $ranks");
  EXPECT_EQ(line_prefix_of("", facts), "");
}

}  // namespace
}  // namespace dl::launcher
