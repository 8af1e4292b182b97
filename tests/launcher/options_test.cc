#include "launcher/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <cstdlib>

#include "core/base/error.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Options parse(std::vector<std::string> arguments) {
  return std::get<Options>(parse_options(arguments));
}

std::string refusal(std::vector<std::string> arguments) {
  try {
    parse_options(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

// Variables that are set for as long as the object lives.
class Variables {
 public:
  using Entries = std::vector<std::pair<std::string, std::string>>;
  explicit Variables(Entries entries) : entries_(std::move(entries)) {
    for (const auto& [name, value] : entries_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& [name, value] : entries_) ::unsetenv(name.c_str());
  }

 private:
  Entries entries_;
};

TEST(Options, TorchrunsVariablesAreTakenBelowTheLine) {
  const Variables set({{"PET_NPROC_PER_NODE", "4"},
                       {"PET_NNODES", "2:2"},
                       {"PET_NODE_RANK", "1"},
                       {"PET_MASTER_ADDR", "head"},
                       {"PET_MASTER_PORT", "23456"},
                       {"PET_RDZV_ENDPOINT", "head:29400"},
                       {"PET_RDZV_ID", "job7"},
                       {"PET_RDZV_BACKEND", "c10d"},
                       {"PET_MAX_RESTARTS", "0"},
                       {"PET_LOG_DIR", "logs"},
                       {"PET_NO_PYTHON", "0"},
                       {"PET_ROLE", "trainer"},
                       {"PET_TEE", "3"},
                       {"PET_RDZV_CONF", "join_timeout=30"},
                       {"PET_SHUTDOWN_TIMEOUT", "4"},
                       {"PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGUSR1"}});
  const Options all = parse({"x"});
  EXPECT_EQ(all.job.nproc_per_node, "4");
  EXPECT_EQ(all.where.nnodes, 2);
  EXPECT_EQ(all.where.node_rank, 1);
  EXPECT_EQ(all.meet.master_addr, "head");
  EXPECT_EQ(all.meet.master_port, 23456);
  EXPECT_EQ(all.meet.rdzv_endpoint, "head:29400");
  EXPECT_EQ(all.meet.rdzv_id, "job7");
  EXPECT_EQ(all.output.log_dir, "logs");
  EXPECT_THAT(all.remarks, ElementsAre());
  EXPECT_EQ(all.job.role, "trainer");
  EXPECT_EQ(all.output.tee.of(0), (Streams{true, true}));
  EXPECT_EQ(all.meet.join_timeout, 30s);
  EXPECT_EQ(all.end.grace, 4s);
  EXPECT_THAT(all.end.signals_to_handle, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_EQ(parse({"--grace=1", "x"}).end.grace, 1s);
  EXPECT_EQ(parse({"--grace=1", "x"}).end.linger, std::nullopt);
  EXPECT_EQ(parse({"--linger=0.5", "x"}).end.linger, 500ms);
  const Options typed = parse({"--nproc-per-node", "2", "--node-rank=0", "x"});
  EXPECT_EQ(typed.job.nproc_per_node, "2");
  EXPECT_EQ(typed.where.nnodes, 2);
  EXPECT_EQ(typed.where.node_rank, 0);
  // A line that says one node means it.
  for (const char* one : {"--standalone", "--nnodes=1"}) {
    const Options alone = parse({one, "x"});
    EXPECT_EQ(alone.where.nnodes, 1) << one;
    EXPECT_FALSE(alone.where.node_rank) << one;
    EXPECT_EQ(alone.meet.rdzv_endpoint, "") << one;
    EXPECT_EQ(alone.meet.master_addr, "") << one;
    EXPECT_EQ(alone.job.nproc_per_node, "4") << one;
  }
}

TEST(Options, AVariableThatIsWrongIsNamed) {
  const auto refused = [](const char* name, const char* value) {
    const Variables set(Variables::Entries{{name, value}});
    return refusal({"x"});
  };
  EXPECT_EQ(refused("PET_NPROC_PER_NODE", "many"),
            "PET_NPROC_PER_NODE is `many`, wanted a whole number from 1 to 1000000, or gpu, cpu or "
            "auto");
  EXPECT_THAT(refused("PET_NNODES", "1:4"), HasSubstr("PET_NNODES is `1:4`: a job whose number"));
  EXPECT_EQ(refused("PET_NNODES", "2"),
            "PET_NNODES is 2: give node 0's address in --rdzv-endpoint HOST:PORT");
  EXPECT_EQ(refused("PET_NODE_RANK", "1"), "PET_NODE_RANK is 1 but --nnodes is 1");
  EXPECT_THAT(refused("PET_MAX_RESTARTS", "x"), HasSubstr("PET_MAX_RESTARTS is `x`"));
  EXPECT_THAT(refused("PET_RDZV_BACKEND", "etcd"), HasSubstr("PET_RDZV_BACKEND is `etcd`"));
  EXPECT_EQ(refused("PET_MODULE", "2"), "PET_MODULE is `2`, wanted 0 or 1");
  EXPECT_THAT(refused("PET_TEE", "4"), HasSubstr("PET_TEE is `4`, wanted 0 (neither)"));
  EXPECT_EQ(refused("PET_STANDALONE", "yes"), "PET_STANDALONE=yes is not a whole number");
}

TEST(Options, RemarksOnTorchrunVariablesItDoesNotUse) {
  const Variables set({{"PET_DUPLICATE_STDOUT_FILTERS", "loss"},
                       {"PET_DATA_DIR", "/scans"},
                       {"PET_DUPLICATE_STDERR_FILTERS", ""}});
  EXPECT_THAT(
      parse({"x"}).remarks,
      ElementsAre("PET_DUPLICATE_STDOUT_FILTERS of torchrun is not used: with --log-dir DIR, "
                  "`grep` finds the words in DIR/latest/attempt_0/*/stdout.log"));
}

TEST(Options, OneDlrunANodeOfAStepOfSrunIsOneJobWithNothingTyped) {
  const Variables set({{"SLURM_PROCID", "1"},
                       {"SLURM_STEP_NUM_TASKS", "3"},
                       {"SLURM_STEP_NUM_NODES", "3"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                       {"SLURM_STEP_NODELIST", "n[07-08],m1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_JOB_ID", "4711"},
                       {"SLURM_STEP_ID", "2"}});
  const Options options = parse({"x"});
  EXPECT_EQ(options.where.nnodes, 3);
  EXPECT_EQ(options.where.node_rank, 1);
  EXPECT_EQ(options.meet.rdzv_endpoint, "n07:10333");  // 10000 + (4711 + 2 * 311) % 5000
  EXPECT_EQ(options.meet.rdzv_id, "slurm-4711.2");
  EXPECT_EQ(parse({"--nnodes=3", "x"}).where.node_rank, 1);
  EXPECT_EQ(parse({"--rdzv-endpoint=a:1", "x"}).meet.rdzv_endpoint, "a:1");
  EXPECT_EQ(parse({"--rdzv-id=j", "x"}).meet.rdzv_id, "j");
  EXPECT_EQ(parse({"--standalone", "x"}).where.nnodes, 1);
  EXPECT_EQ(parse({"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=a:1", "x"}).meet.rdzv_id, "");
  EXPECT_EQ(
      refusal({"--nnodes=2", "x"}),
      "--nnodes is 2, but this step of srun has 3 nodes; leave it out, or say srun --nodes=2");
  EXPECT_THAT(refusal({"--nnodes=1", "x"}), HasSubstr("this is task 1 of 3 of one srun"));
  const Variables inside(Variables::Entries{{"DLRUN_JOB_ID", "j"}});
  EXPECT_EQ(parse({"x"}).where.nnodes, 1);
}

TEST(Options, TheNumberOfNodesInAnAllocationIsTheAllocations) {
  const Variables set({{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  EXPECT_FALSE(parse({"x"}).where.says_nodes);
  EXPECT_FALSE(parse({"--nnodes=2", "x"}).where.says_nodes);
  EXPECT_EQ(refusal({"--nnodes=3", "x"}),
            "--nnodes is 3, but the allocation of SLURM's job 4711 has 2 nodes; leave it out, or "
            "ask sbatch or salloc for --nodes=3");
  // Lines that name the rendezvous endpoint, or that there is only one node.
  EXPECT_EQ(parse({"--nnodes=3", "--rdzv-endpoint=a:1", "x"}).where.nnodes, 3);
  EXPECT_TRUE(parse({"--nnodes=2", "--rdzv-endpoint=a:1", "x"}).where.says_nodes);
  EXPECT_TRUE(parse({"--nnodes=1", "x"}).where.says_nodes);
  const Variables inside(Variables::Entries{{"DLRUN_JOB_ID", "j"}});
  EXPECT_THAT(refusal({"--nnodes=2", "x"}), HasSubstr("give node 0's address"));
}

TEST(Options, TasksAskedOfSlurmAreTheRanksANode) {
  const Variables job({{"SLURM_JOB_ID", "4711"},
                       {"SLURM_JOB_NODELIST", "n[1-3]"},
                       {"SLURM_TASKS_PER_NODE", "2(x2),1"}});
  // An exclusive node counts tasks that no line has asked for.
  EXPECT_EQ(parse({"x"}).job.nproc_per_node, "1");
  EXPECT_THAT(parse({"x"}).where.slurm_tasks, ElementsAre());
  for (const char* const asked : {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"}) {
    const Variables tasks(Variables::Entries{{asked, "5"}});
    for (const std::vector<std::string>& line :
         {std::vector<std::string>{"x"}, std::vector<std::string>{"--nnodes=3", "x"}}) {
      const Options options = parse(line);
      EXPECT_THAT(options.where.slurm_tasks, ElementsAre(2, 2, 1)) << asked;
      EXPECT_EQ(options.settings.front().option, "--nproc-per-node");
      EXPECT_EQ(options.settings.front().value, "2(x2),1");
      EXPECT_EQ(options.settings.front().variable, "SLURM_TASKS_PER_NODE");
    }
    // Lines that give a number, or that name other nodes than the allocation's.
    for (const std::vector<std::string>& line : {std::vector<std::string>{"-n", "3", "x"},
                                                 {"--nproc-per-node=1", "x"},
                                                 {"--hosts=a:1,b:1", "x"},
                                                 {"--standalone", "x"},
                                                 {"--nnodes=1", "x"},
                                                 {"--nnodes=3", "--rdzv-endpoint=a:1", "x"}}) {
      EXPECT_THAT(parse(line).where.slurm_tasks, ElementsAre()) << line.front();
    }
    const Variables torchruns(Variables::Entries{{"PET_NPROC_PER_NODE", "4"}});
    EXPECT_EQ(parse({"x"}).job.nproc_per_node, "4");
    const Variables inside(Variables::Entries{{"DLRUN_JOB_ID", "j"}});
    EXPECT_THAT(parse({"x"}).where.slurm_tasks, ElementsAre());
  }
}

TEST(Options, TasksAskedOfSlurmOnOneNode) {
  const Variables job({{"SLURM_JOB_ID", "4711"},
                       {"SLURM_JOB_NODELIST", "n1"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_TASKS_PER_NODE", "4"}});
  EXPECT_EQ(parse({"x"}).job.nproc_per_node, "4");
  EXPECT_EQ(parse({"--nnodes=1", "x"}).job.nproc_per_node, "4");
  EXPECT_EQ(parse({"--standalone", "x"}).job.nproc_per_node, "1");
  const Variables two(Variables::Entries{{"SLURM_TASKS_PER_NODE", "2(x2)"}});
  EXPECT_EQ(refusal({"x"}), "SLURM_TASKS_PER_NODE has 2 nodes, SLURM_JOB_NODELIST 1");
  const Variables bad(Variables::Entries{{"SLURM_TASKS_PER_NODE", "many"}});
  EXPECT_THAT(refusal({"x"}), StartsWith("SLURM_TASKS_PER_NODE: "));
  const Variables none(Variables::Entries{{"SLURM_TASKS_PER_NODE", "0"}});
  EXPECT_EQ(refusal({"x"}),
            "SLURM_TASKS_PER_NODE has no task for n1; give the number of ranks in "
            "--nproc-per-node");
}

TEST(Options, SeveralDlrunsOnANodeUnderSrunAreRefused) {
  {
    const Variables set({{"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"},
                         {"SLURM_NODEID", "0"}});
    EXPECT_EQ(refusal({"x"}),
              "this is one of 4 tasks of an srun that starts several on a node: start one dlrun a "
              "node: srun --ntasks-per-node=1, or leave srun out. For 4 jobs of their own: "
              "--standalone");
    EXPECT_EQ(refusal({"--standalone", "x"}), "accepted");
    EXPECT_EQ(refusal({"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a:1", "x"}), "accepted");
  }
  {
    const Variables set(
        {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}});
    EXPECT_THAT(refusal({"x"}), HasSubstr("start one dlrun a node"));
  }
  {
    // In a batch script, and in a step of one task.
    const Variables set(
        {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}});
    EXPECT_EQ(refusal({"x"}), "accepted");
  }
  {
    // With srun's own PMI, and below an mpirun that runs inside a step.
    const Variables set({{"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"PMI_RANK", "1"},
                         {"PMI_SIZE", "2"}});
    EXPECT_THAT(refusal({"x"}), HasSubstr("start one dlrun a node: srun --ntasks-per-node=1"));
    const Variables inside(Variables::Entries{{"PMI_SIZE", "4"}});
    EXPECT_THAT(refusal({"x"}), HasSubstr("this is rank 1 of 4 of one mpirun"));
  }
  const Variables set({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(refusal({"x"}), HasSubstr("this is rank 3 of 4 of one mpirun"));
}

TEST(Options, BadValuesAreQuotedBack) {
  EXPECT_EQ(
      refusal({"--nproc-per-node", "0", "x"}),
      "--nproc-per-node is `0`, wanted a whole number from 1 to 1000000, or gpu, cpu or auto");
  for (const char* bad : {"-1", "two", "2.5", "99999999999"}) {
    EXPECT_THAT(refusal({std::string("--nproc-per-node=") + bad, "x"}), HasSubstr(bad));
  }
  EXPECT_EQ(refusal({"--grace", "soon", "x"}),
            "--grace is `soon`, wanted a number of seconds from 0 to 1000000000");
  EXPECT_THAT(refusal({"--master-port", "65536", "x"}), HasSubstr("--master-port is `65536`"));
  EXPECT_THAT(refusal({"--bind", "gpu", "x"}),
              HasSubstr("--bind is `gpu`, wanted none, core, even, numa or socket"));
  EXPECT_THAT(refusal({"--nproc-per-node", "xpu", "x"}), HasSubstr("is not supported"));
  EXPECT_THAT(refusal({"--gpus-per-rank", "0", "x"}), HasSubstr("--gpus-per-rank is `0`"));
  EXPECT_EQ(refusal({"--gpu-policy", "share", "x"}),
            "--gpu-policy is `share`, wanted keep, scope or leave");
  EXPECT_THAT(refusal({"--gpu-policy=leave", "--gpus-per-rank=2", "x"}),
              HasSubstr("--gpu-policy leave gives out no GPUs"));
}

TEST(Options, EmptyValuesAreRefusedAndNeverTakeTheNextWord) {
  EXPECT_EQ(refusal({"--nnodes", "", "x"}),
            "--nnodes has an empty value, wanted N; or leave it out");
  EXPECT_EQ(refusal({"--no-prefix", "--grace", "1", "--log_dir=", "x"}),
            "--log-dir has an empty value, wanted DIR; or leave it out");
  EXPECT_THAT(refusal({"--rdzv-id=", "--dry-run", "x"}), HasSubstr("--rdzv-id has an empty"));
  EXPECT_THAT(parse({"--grace", "1", "x", "--log-dir="}).job.apps.front().program,
              ElementsAre("x", "--log-dir="));
  EXPECT_THAT(parse({"--", "--log-dir="}).job.apps.front().program, ElementsAre("--log-dir="));
}

TEST(Options, AValueThatIsMissingOrThatAFlagDoesNotTakeIsRefused) {
  EXPECT_EQ(refusal({"--dry-run", "--nproc-per-node"}),
            "--nproc-per-node needs a value: N|gpu|cpu|auto");
  EXPECT_EQ(refusal({"--dry-run=no", "x"}), "--dry-run takes no value");
  EXPECT_EQ(refusal({"--no_prefix=false", "x"}), "--no-prefix takes no value");
}

TEST(Options, SeveralNodesNeedAnEndpointAndStaticOnesANumber) {
  EXPECT_THAT(refusal({"--nnodes", "2", "x"}), HasSubstr("--rdzv-endpoint"));
  EXPECT_EQ(refusal({"--nnodes", "2", "--rdzv-backend=static", "--rdzv-endpoint=a:1", "x"}),
            "--nnodes is 2 and --rdzv-backend is static: give this node's number in --node-rank");
  EXPECT_THAT(refusal({"--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "a:1", "x"}),
              HasSubstr("wanted less than --nnodes"));
  EXPECT_THAT(refusal({"--node-rank", "1", "x"}), HasSubstr("--node-rank is 1 but --nnodes is 1"));
  EXPECT_THAT(refusal({"--standalone", "--nnodes=2", "--rdzv-endpoint=a", "x"}),
              HasSubstr("--standalone means one node"));
  const auto counted = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--nnodes=2", "--rdzv-endpoint=a:1"});
    more.emplace_back("x");
    return parse(std::move(more));
  };
  EXPECT_EQ(counted({"--node-rank", "1"}).where.node_rank, 1);
  EXPECT_FALSE(counted({}).where.node_rank);
  EXPECT_FALSE(counted({"--rdzv_backend=c10d"}).meet.is_host);
  EXPECT_EQ(counted({"--rdzv_conf", "is_host=1, join_timeout=7"}).meet.is_host, true);
  EXPECT_EQ(counted({"--rdzv_conf", "is_host=No"}).meet.is_host, false);
  EXPECT_EQ(*parse({"--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=5", "x"})
                 .meet.master_port,
            5);
}

TEST(Options, NoProgramIsSaidSo) {
  EXPECT_THAT(refusal({}), HasSubstr("no program given"));
  EXPECT_THAT(refusal({"--"}), HasSubstr("no program given"));
  EXPECT_EQ(refusal({"-n", "2", "--log-dir", "train.py"}),
            "no program given: --log-dir has taken `train.py` as its value; `dlrun --help` shows "
            "how");
  EXPECT_THAT(refusal({"--log-dir=train.py"}), HasSubstr("no program given; "));
  EXPECT_THAT(refusal({"--json", "x"}), HasSubstr("--json needs --dry-run"));
}

TEST(Options, AForgottenValueIsSaidBeforeAnythingOfTheProgram) {
  for (const OptionRow& row : option_table()) {
    if (row.read == nullptr || !read::takes_words_only(row)) continue;
    const std::string name(row.name);
    SCOPED_TRACE(name);
    const std::string begin = name + " is `train.py`";
    EXPECT_THAT(refusal({name, "train.py"}), StartsWith(begin));
    EXPECT_THAT(refusal({"--no-python", name, "train.py", "--lr", "0.1"}), StartsWith(begin));
  }
  EXPECT_EQ(refusal({"--on-failure", "train.py", "--lr", "0.1"}),
            "--on-failure is `train.py`, wanted stop or keep");
  EXPECT_THAT(refusal({"--max-restarts", "train.py"}), StartsWith("--max-restarts is `train.py`"));
  EXPECT_THAT(refusal({"--nproc-per-node", "train.py"}), HasSubstr("or gpu, cpu or auto"));
  EXPECT_THAT(refusal({"--grace", "train.py"}), StartsWith("--grace is `train.py`"));
}

TEST(Options, VersionAndHelpGoBeforeWhatFollows) {
  EXPECT_THAT(std::get<Information>(parse_options({"--version", "--bogus"})).text,
              HasSubstr("dlrun 0."));
  EXPECT_THAT(std::get<Information>(parse_options({"-h"})).text, HasSubstr("Usage: dlrun"));
  EXPECT_THAT(refusal({"--bogus", "--help"}), HasSubstr("there is no option --bogus"));
}

TEST(Options, DryRunIsToldWhoSetWhat) {
  const Variables set({{"PET_ROLE", "trainer"}, {"PET_GRACE", "3"}});
  std::vector<std::string> said;
  for (const Setting& setting :
       parse({"--nnodes=1", "--tee", "1", "--json", "--dry-run", "x"}).settings) {
    const char* const by = setting.by == SetBy::kLine      ? "line"
                           : setting.by == SetBy::kDefault ? "default"
                                                           : setting.variable.c_str();
    said.push_back(setting.option + " " + setting.value + " " + by);
  }
  for (const char* line : {"--nproc-per-node 1 default", "--nnodes 1 line", "--tee 1 line",
                           "--role trainer PET_ROLE", "--grace 10 default", "--dry-run on line"}) {
    EXPECT_THAT(said, Contains(line));
  }
}

// The options of which a line shows the default.
std::vector<std::string> defaults_of(const std::vector<std::string>& line) {
  std::vector<std::string> names;
  for (const Setting& setting : parse(line).settings) {
    if (setting.by == SetBy::kDefault) names.push_back(setting.option);
  }
  return names;
}

TEST(Options, ADefaultIsShownOnlyIfItIsInForce) {
  struct Case {
    std::vector<std::string> line;
    std::vector<const char*> not_shown;
  };
  const Case cases[] = {
      {{"-n", "3", "x"}, {"--nproc-per-node"}},
      {{"--map-by", "ppr:1:node", "x"}, {"--nproc-per-node"}},
      {{"--shutdown-timeout", "20", "x"}, {"--grace"}},
      {{"--bind-to", "core", "x"}, {"--bind"}},
      {{"--output-filename", "o:nocopy", "x"}, {"--redirects"}},
      {{"--no-prefix", "x"}, {"--log-line-prefix-template"}},
      {{"--rdzv-conf", "join_timeout=30", "--hosts", "a,b", "x"}, {"--join-timeout"}},
      {{"--hosts", "a:2,b:1", "x"}, {"--nnodes", "--nproc-per-node"}},
      {{"--nnodes=2", "--rdzv-endpoint=a", "x"}, {"--ssh"}},
      {{"x"}, {"--ssh", "--preempt-wait", "--join-timeout", "--map-by", "--tee"}},
  };
  for (const Case& one : cases) {
    const std::vector<std::string> shown = defaults_of(one.line);
    for (const char* name : one.not_shown) {
      EXPECT_THAT(shown, testing::Not(Contains(name))) << testing::PrintToString(one.line);
    }
  }
  EXPECT_THAT(defaults_of({"--preempt", "--bind=core", "--hosts=a,b", "x"}),
              testing::IsSupersetOf({"--nproc-per-node", "--preempt-wait", "--map-by", "--ssh",
                                     "--join-timeout", "--grace"}));
  const Variables of_slurm({{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  EXPECT_THAT(defaults_of({"x"}), testing::Not(Contains("--nnodes")));
  EXPECT_THAT(defaults_of({"--standalone", "x"}), Contains("--nnodes"));
}

TEST(Options, AVariableIsNotShownIfTheLineGivesItsOtherName) {
  const Variables set({{"PET_SHUTDOWN_TIMEOUT", "20"},
                       {"PET_LOG_DIR", "logs"},
                       {"PET_LOG_LINE_PREFIX_TEMPLATE", "p"}});
  const Options parsed = parse({"--grace=3", "--output-filename=o", "--no-prefix", "x"});
  EXPECT_EQ(parsed.end.grace, 3s);
  EXPECT_EQ(parsed.output.log_dir, "o");
  EXPECT_EQ(parsed.output.line_prefix, "");
  for (const Setting& setting : parsed.settings) EXPECT_NE(setting.by, SetBy::kVariable);
}

// --gpus-per-rank: GPUs are given out if it is typed, whatever its number.
TEST(Options, EachDefaultOfTheTableIsTheOneThatCounts) {
  for (const OptionRow& row : option_table()) {
    if (row.fallback.empty() || row.name == "--gpus-per-rank") continue;
    Options typed;
    typed.end.preempt_on_term = true;  // --preempt-wait needs it
    const Options before = typed;
    row.read(typed, {&row, std::string(row.fallback), ""});
    EXPECT_EQ(typed, before) << row.name;
  }
}

}  // namespace
}  // namespace dl::launcher
