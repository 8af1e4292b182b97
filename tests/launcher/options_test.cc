#include "launcher/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Options parse(std::vector<std::string> arguments) {
  return std::get<Options>(parse_options(std::move(arguments)));
}

std::string refusal(std::vector<std::string> arguments) {
  try {
    parse_options(std::move(arguments));
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
                       {"PET_NO_PYTHON", "0"}});
  const Options all = parse({"x"});
  EXPECT_EQ(all.nproc_per_node, "4");
  EXPECT_EQ(all.nnodes, 2);
  EXPECT_EQ(all.node_rank, 1);
  EXPECT_EQ(all.master_addr, "head");
  EXPECT_EQ(all.master_port, 23456);
  EXPECT_EQ(all.rdzv_endpoint, "head:29400");
  EXPECT_EQ(all.rdzv_id, "job7");
  EXPECT_EQ(all.log_dir, "logs");
  EXPECT_THAT(all.remarks, ElementsAre());
  const Options typed = parse({"--nproc-per-node", "2", "--node-rank=0", "x"});
  EXPECT_EQ(typed.nproc_per_node, "2");
  EXPECT_EQ(typed.nnodes, 2);
  EXPECT_EQ(typed.node_rank, 0);
  // A line that says one node means it.
  for (const char* one : {"--standalone", "--nnodes=1"}) {
    const Options alone = parse({one, "x"});
    EXPECT_EQ(alone.nnodes, 1) << one;
    EXPECT_FALSE(alone.node_rank) << one;
    EXPECT_EQ(alone.rdzv_endpoint, "") << one;
    EXPECT_EQ(alone.master_addr, "") << one;
    EXPECT_EQ(alone.nproc_per_node, "4") << one;
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
  EXPECT_EQ(refused("PET_NNODES", "2"), "PET_NNODES is 2: give this node's number in --node-rank");
  EXPECT_EQ(refused("PET_NODE_RANK", "1"), "PET_NODE_RANK is 1 but --nnodes is 1");
  EXPECT_THAT(refused("PET_MAX_RESTARTS", "x"), HasSubstr("PET_MAX_RESTARTS is `x`"));
  EXPECT_THAT(refused("PET_RDZV_BACKEND", "etcd"), HasSubstr("PET_RDZV_BACKEND is `etcd`"));
  EXPECT_EQ(refused("PET_MODULE", "1"),
            "PET_MODULE=1 of torchrun is not supported: write `dlrun ... python -m MODULE`");
  EXPECT_EQ(refused("PET_STANDALONE", "yes"), "PET_STANDALONE=yes is not a whole number");
}

TEST(Options, VariablesOfOptionsThatAreNotThereAreSaidAndForeignOnesAreNot) {
  const Variables set(
      {{"PET_RDZV_CONF", "timeout=9"}, {"PET_DATA_DIR", "/scans"}, {"PET_ROLE", ""}});
  EXPECT_THAT(parse({"x"}).remarks,
              ElementsAre("PET_RDZV_CONF of torchrun is not used: dlrun's rendezvous has "
                          "--join-timeout and nothing else to set"));
}

TEST(Options, SeveralDlrunsUnderOneSrunAreRefusedWithTheLineThatMakesOneJob) {
  {
    const Variables set(
        {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "2"}});
    EXPECT_EQ(refusal({"x"}),
              "this is task 1 of 2 of one srun, and each would be a job of its own that does the "
              "same. For one job: srun --ntasks-per-node=1 sh -c 'dlrun --nnodes "
              "$SLURM_STEP_NUM_NODES --node-rank $SLURM_NODEID --rdzv-endpoint $(scontrol show "
              "hostnames $SLURM_STEP_NODELIST | head -n 1):29400 ...'. For 2 jobs of their own: "
              "--standalone");
    EXPECT_EQ(refusal({"--standalone", "x"}), "accepted");
    EXPECT_EQ(refusal({"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a:1", "x"}), "accepted");
    const Variables inside(Variables::Entries{{"DLRUN_JOB_ID", "j"}});
    EXPECT_EQ(refusal({"x"}), "accepted");
  }
  {
    const Variables set(
        {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}});
    EXPECT_THAT(refusal({"x"}), HasSubstr("srun --ntasks=1 dlrun --nproc-per-node 4"));
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
    EXPECT_THAT(refusal({"x"}), HasSubstr("this is task 1 of 2 of one srun"));
    const Variables inside(Variables::Entries{{"PMI_SIZE", "4"}});
    EXPECT_THAT(refusal({"x"}), HasSubstr("this is rank 1 of 4 of one mpirun"));
  }
  const Variables set({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(refusal({"x"}), HasSubstr("this is rank 3 of 4 of one mpirun"));
}

TEST(Options, DashesAndUnderscoresAreTheSame) {
  for (const char* name : {"--nproc-per-node", "--nproc_per_node"}) {
    EXPECT_EQ(parse({name, "3", "x"}).nproc_per_node, "3");
    EXPECT_EQ(parse({std::string(name) + "=3", "x"}).nproc_per_node, "3");
  }
  EXPECT_EQ(parse({"--master_port", "2000", "x"}).master_port, 2000);
}

TEST(Options, EverythingFromTheProgramOnIsTheProgramsOwn) {
  EXPECT_THAT(parse({"./train", "--nproc-per-node", "2", "--", "-h"}).program,
              ElementsAre("./train", "--nproc-per-node", "2", "--", "-h"));
  EXPECT_EQ(parse({"./train", "--nproc-per-node", "2"}).nproc_per_node, "1");
  EXPECT_THAT(parse({"--grace", "1", "--", "--odd", "--version"}).program,
              ElementsAre("--odd", "--version"));
  EXPECT_THAT(parse({"x", ""}).program, ElementsAre("x", ""));
}

TEST(Options, TorchrunsOptionsThatAreNotThereAreRefusedByName) {
  for (const char* name : {"--rdzv-conf",
                           "--monitor-interval",
                           "--start-method",
                           "--event-log-handler",
                           "--role",
                           "-m",
                           "--module",
                           "--run-path",
                           "-r",
                           "--redirects",
                           "-t",
                           "--tee=3",
                           "--log-line-prefix-template",
                           "--local-ranks-filter",
                           "--duplicate-stdout-filters",
                           "--duplicate-stderr-filters",
                           "--local-addr",
                           "--logs-specs",
                           "--numa-binding",
                           "--signals-to-handle",
                           "--shutdown-timeout",
                           "--virtual-local-rank",
                           "--print-completion"}) {
    EXPECT_THAT(refusal({name, "value", "x"}), HasSubstr("of torchrun is not supported")) << name;
  }
  EXPECT_THAT(refusal({"--tee=3", "x"}), HasSubstr("--tee of torchrun"));
  EXPECT_EQ(parse({"--max-restarts", "3", "x"}).max_restarts, 3);
  EXPECT_THAT(refusal({"--max-restarts", "-1", "x"}), HasSubstr("--max-restarts is `-1`"));
  EXPECT_THAT(refusal({"--nnodes", "1:4", "x"}), HasSubstr("--nnodes is `1:4`"));
  EXPECT_THAT(refusal({"--rdzv_backend=etcd", "x"}), HasSubstr("--rdzv-backend is `etcd`"));
  EXPECT_EQ(refusal({"--bogus", "x"}), "there is no option --bogus; `dlrun --help` lists them all");
}

TEST(Options, TorchrunsHarmlessOptionsAreTaken) {
  EXPECT_THAT(parse({"--standalone", "--no-python", "--max-restarts=0", "--rdzv_backend=c10d",
                     "--rdzv_endpoint=localhost:0", "x"})
                  .program,
              ElementsAre("x"));
  EXPECT_EQ(parse({"--nnodes=1:1", "x"}).nnodes, 1);
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
  EXPECT_THAT(parse({"--grace", "1", "x", "--log-dir="}).program, ElementsAre("x", "--log-dir="));
  EXPECT_THAT(parse({"--", "--log-dir="}).program, ElementsAre("--log-dir="));
}

TEST(Options, AValueThatIsMissingOrThatAFlagDoesNotTakeIsRefused) {
  EXPECT_EQ(refusal({"--dry-run", "--nproc-per-node"}),
            "--nproc-per-node needs a value: N|gpu|cpu|auto");
  EXPECT_EQ(refusal({"--dry-run=no", "x"}), "--dry-run takes no value");
  EXPECT_EQ(refusal({"--no_prefix=false", "x"}), "--no-prefix takes no value");
}

TEST(Options, SeveralNodesNeedANumberAndAPlaceToMeet) {
  EXPECT_THAT(refusal({"--nnodes", "2", "x"}), HasSubstr("--node-rank"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--node-rank", "1", "x"}), HasSubstr("--rdzv-endpoint"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "a:1", "x"}),
              HasSubstr("wanted less than --nnodes"));
  EXPECT_EQ(*parse({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "a:1", "x"}).node_rank,
            1);
  EXPECT_EQ(*parse({"--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=5", "x"})
                 .master_port,
            5);
}

TEST(Options, NoProgramIsSaidSo) {
  EXPECT_THAT(refusal({}), HasSubstr("no program given"));
  EXPECT_THAT(refusal({"--"}), HasSubstr("no program given"));
  EXPECT_THAT(refusal({"--json", "x"}), HasSubstr("--json needs --dry-run"));
}

TEST(Options, HelpNamesEveryOptionAndVersionTheVersion) {
  const std::string help = std::get<Information>(parse_options({"--help"})).text;
  for (const char* name : {"--nproc-per-node", "--nnodes", "--node-rank", "--rdzv-endpoint",
                           "--master-port", "--log-dir", "--grace", "--dry-run", "--bind"}) {
    EXPECT_THAT(help, HasSubstr(name));
  }
  EXPECT_THAT(std::get<Information>(parse_options({"--version"})).text, HasSubstr("dlrun 0."));
}

TEST(Options, ReferenceQuotesHelpAndTheManualNamesWhatItNames) {
  const auto contents = [](const std::string& path) {
    const char* const root = std::getenv("DLRUN_TEST_SOURCE");
    std::ifstream file(std::string(root == nullptr ? "." : root) + "/" + path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string help = std::get<Information>(parse_options({"--help"})).text;
  std::string manual = contents("launcher/dlrun.1");
  std::erase(manual, '\\');  // roff writes \-\-grace
  EXPECT_THAT(contents("docs/reference/dlrun.md"), HasSubstr("```\n" + help + "```\n"));
  std::istringstream words(help);
  int options = 0;
  for (std::string word; words >> word;) {
    if (!word.starts_with("--") || word.size() < 4) continue;
    if (word.back() == ':') word.pop_back();
    EXPECT_THAT(manual, HasSubstr(word));
    ++options;
  }
  EXPECT_GT(options, 15);
}

}  // namespace
}  // namespace dl::launcher
