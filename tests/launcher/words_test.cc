// How a line is written: names, abbreviations, letters, and the words of other launchers.
#include "launcher/cli/read/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "launcher/cli/read/shell_text.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"
#include "tests/support/read_file.h"

namespace dl::launcher {
namespace {

using read::shell_words;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> options_of(std::vector<std::string> words) {
  std::vector<std::string> spelled;
  const SpelledOut first = spell_out(words).front();
  for (const Typed& typed : first.options) {
    spelled.emplace_back(typed.row->name);
    if (!typed.row->is_flag()) spelled.push_back(typed.value);
  }
  return spelled;
}

std::string spelling_refusal(const std::vector<std::string>& words) {
  try {
    spell_out(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(Words, DashesAndUnderscoresAndBothFormsOfAValueAreTheSame) {
  for (const char* name : {"--nproc-per-node", "--nproc_per_node", "--nproc-per_node"}) {
    EXPECT_THAT(options_of({name, "3", "x"}), ElementsAre("--nproc-per-node", "3"));
    EXPECT_THAT(options_of({std::string(name) + "=3", "x"}), ElementsAre("--nproc-per-node", "3"));
  }
  EXPECT_THAT(options_of({"--log_dir=a_b=c", "x"}), ElementsAre("--log-dir", "a_b=c"));
}

TEST(Words, EveryOptionOfTorchrunIsKnown) {
  // torchrun --help of PyTorch 2.15.
  for (const char* name : {"--help",
                           "--nnodes",
                           "--nproc-per-node",
                           "--rdzv-backend",
                           "--rdzv-endpoint",
                           "--rdzv-id",
                           "--rdzv-conf",
                           "--standalone",
                           "--max-restarts",
                           "--monitor-interval",
                           "--start-method",
                           "--event-log-handler",
                           "--role",
                           "--module",
                           "--no-python",
                           "--run-path",
                           "--log-dir",
                           "--redirects",
                           "--tee",
                           "--log-line-prefix-template",
                           "--local-ranks-filter",
                           "--duplicate-stdout-filters",
                           "--duplicate-stderr-filters",
                           "--node-rank",
                           "--master-addr",
                           "--master-port",
                           "--local-addr",
                           "--logs-specs",
                           "--numa-binding",
                           "--signals-to-handle",
                           "--shutdown-timeout",
                           "--virtual-local-rank",
                           "--print-completion"}) {
    EXPECT_EQ(option_named(name).origin, Origin::kTorchrun) << name;
    const bool refused = option_named(name).group == Group::kRefused;
    EXPECT_EQ(option_named(name).read == nullptr, refused) << name;
  }
}

TEST(Words, AnAbbreviationIsTakenAsLongAsItIsClear) {
  EXPECT_THAT(options_of({"--nproc=2", "x"}), ElementsAre("--nproc-per-node", "2"));
  EXPECT_THAT(options_of({"--nproc_per", "2", "x"}), ElementsAre("--nproc-per-node", "2"));
  EXPECT_THAT(options_of({"--stand", "x"}), ElementsAre("--standalone"));
  EXPECT_THAT(options_of({"--dry", "x"}), ElementsAre("--dry-run"));
  // Clear to torchrun, whatever options of ours begin so.
  EXPECT_THAT(options_of({"--no-p", "x"}), ElementsAre("--no-python"));
  EXPECT_THAT(options_of({"--sh", "3", "x"}), ElementsAre("--shutdown-timeout", "3"));
  EXPECT_EQ(spelling_refusal({"--log", "x"}),
            "--log may be --log-dir, --log-line-prefix-template; write more of it");
  EXPECT_EQ(spelling_refusal({"--g", "x"}),
            "--g may be --gpus-per-rank, --gpu-policy, --grace; write more of it");
  EXPECT_THAT(spelling_refusal({"--logs=a", "x"}), StartsWith("--logs-specs of torchrun"));
  EXPECT_EQ(spelling_refusal({"--bogus=1", "x"}),
            "there is no option --bogus; `dlrun --help` lists them all");
}

TEST(Words, LettersAreTorchrunsThenMpiruns) {
  EXPECT_THAT(options_of({"-t", "3", "x"}), ElementsAre("--tee", "3"));
  EXPECT_THAT(options_of({"-t3", "x"}), ElementsAre("--tee", "3"));
  EXPECT_THAT(options_of({"-t=3", "x"}), ElementsAre("--tee", "3"));
  EXPECT_THAT(options_of({"-r0:1,1:2", "x"}), ElementsAre("--redirects", "0:1,1:2"));
  EXPECT_THAT(options_of({"-mt", "1", "pkg"}), ElementsAre("--module", "--tee", "1"));
  EXPECT_THAT(options_of({"-n4", "-H", "a:4", "-v", "x"}),
              ElementsAre("--np", "4", "--hosts", "a:4", "--verbose"));
  EXPECT_THAT(options_of({"-np", "4", "--np", "5", "x"}), ElementsAre("--np", "4", "--np", "5"));
  EXPECT_THAT(options_of({"-x", "A=b=c", "-xB", "x"}), ElementsAre("-x", "A=b=c", "-x", "B"));
  EXPECT_EQ(spelling_refusal({"-z", "x"}), "there is no option -z; `dlrun --help` lists them all");
  EXPECT_EQ(spelling_refusal({"-m=1", "x"}), "--module takes no value");
}

TEST(Words, TheProgramAndWhatFollowsAreItsOwn) {
  EXPECT_THAT(spell_out({"./train", "--tee", "2", "--", "-h"}).front().program,
              ElementsAre("./train", "--tee", "2", "--", "-h"));
  EXPECT_THAT(spell_out({"--grace", "1", "--", "--odd", "--version"}).front().program,
              ElementsAre("--odd", "--version"));
  EXPECT_THAT(spell_out({"x", ""}).front().program, ElementsAre("x", ""));
  EXPECT_THAT(spell_out({"-m", "pkg", "-n", "3"}).front().program, ElementsAre("pkg", "-n", "3"));
  EXPECT_THAT(spell_out({"--tee=1"}).front().program, IsEmpty());
}

TEST(Words, ALoneColonBeginsAnotherProgramUnlessItIsMarked) {
  const auto programs = [](const std::vector<std::string>& words) {
    std::vector<std::string> lines;
    for (const SpelledOut& one : spell_out(words)) {
      lines.emplace_back();
      for (const Typed& typed : one.options) lines.back() += "<" + typed.value + ">";
      for (const std::string& word : one.program) lines.back() += word + " ";
    }
    return lines;
  };
  EXPECT_THAT(programs({"-n", "1", "./a", "x", ":", "-n", "3", "./b", "::", "a:b"}),
              ElementsAre("<1>./a x ", "<3>./b :: a:b "));
  EXPECT_THAT(programs({"./a", ":"}), ElementsAre("./a ", ""));
  EXPECT_THAT(programs({":", "./b"}), ElementsAre("", "./b "));
  EXPECT_THAT(programs({"./a", ":", ":", "./b"}), ElementsAre("./a ", "", "./b "));
  EXPECT_THAT(programs({"-n", "1", "--", "sh", "-c", ":"}), ElementsAre("<1>sh -c : "));
  EXPECT_THAT(programs({"a", ":", "--", "b", ":"}), ElementsAre("a ", "b : "));
  // mpirun's rule: a `--` behind the program is a word of the program's.
  EXPECT_THAT(programs({"a", "--", ":", "b"}), ElementsAre("a -- ", "b "));
  EXPECT_THAT(spell_out({"--help", ":"}).front().program, IsEmpty());
  EXPECT_THAT(spell_out_one({"a", ":", "b"}).program, ElementsAre("a", ":", "b"));
}

TEST(Words, AValueIsNeverAnOptionByAccident) {
  EXPECT_EQ(spelling_refusal({"--log-dir", "--tee", "3", "x"}),
            "--log-dir needs a value, DIR, and `--tee` looks like an option; if it is the value, "
            "write `--log-dir=--tee`");
  EXPECT_THAT(options_of({"--log-dir=--tee", "x"}), ElementsAre("--log-dir", "--tee"));
  EXPECT_THAT(options_of({"--np", "-1", "x"}), ElementsAre("--np", "-1"));
  EXPECT_THAT(options_of({"--log-line-prefix-template", "- ${rank}", "x"}),
              ElementsAre("--log-line-prefix-template", "- ${rank}"));
  EXPECT_EQ(spelling_refusal({"--nproc-per-node"}),
            "--nproc-per-node needs a value: N|gpu|cpu|auto");
}

TEST(Words, WordsOfOtherLaunchersAreRefusedWithTheWordToUseHere) {
  struct Case {
    std::vector<std::string> line;
    const char* says;
  };
  const Case cases[] = {
      {{"-ppn", "2", "x"}, "-ppn of mpiexec is not supported: write --nproc-per-node N"},
      {{"-f", "hosts", "x"}, "-f of mpiexec is not supported: write --hostfile FILE"},
      {{"-hosts", "a,b", "x"}, "-hosts of mpiexec is not supported: write --hosts HOST:SLOTS,..."},
      {{"-genv", "A", "1", "x"}, "write -x NAME=VALUE for each variable"},
      {{"-genvall", "x"}, "ranks have dlrun's whole environment"},
      {{"-prepend-rank", "x"}, "each line begins with `[rank N] `"},
      {{"--ntasks=4", "x"}, "--ntasks of srun is not supported: write -n N"},
      {{"--ntasks-per-node", "4", "x"}, "write --nproc-per-node N"},
      {{"--nodes=2", "x"}, "write --nnodes N"},
      {{"-w", "a,b", "x"}, "-w of srun is not supported: write --hosts HOST:SLOTS,..."},
      {{"-wa", "x"}, "-w of srun is not supported: write --hosts HOST:SLOTS,..."},
      {{"--cpus_per_task=2", "x"}, "--cpus-per-task of srun"},
      {{"--partition=gpu", "x"}, "say it to sbatch or salloc"},
      {{"--signal=USR1@60", "x"}, "--signal of srun is not supported: say it to sbatch"},
      {{"--mca", "btl", "tcp", "x"}, "--mca of mpirun is not supported"},
      {{"-mca", "btl", "tcp", "x"}, "-mca of mpirun is not supported"},
      {{"-N", "2", "x"}, "-N of mpirun is not supported: write --nproc-per-node N"},
      {{"--oversubscribe", "x"}, "leave it out"},
      {{"--ppr", "2:node", "x"}, "--ppr of mpirun is not supported: write --map-by ppr:N:node"},
      {{"--bynode", "x"}, "--bynode of mpirun is not supported: write --rank-by node"},
      {{"--configfile", "f", "x"}, "--configfile of mpirun is not supported: write --app FILE"},
      {{"--multi-prog", "f"}, "write the programs with `:` between them, or --app FILE"},
      {{"--distribution=cyclic", "x"}, "--rank-by node for cyclic"},
      {{"-rank-by", "node", "x"}, "-rank-by is written --rank-by here"},
      {{"--use-hwthread-cpus", "x"}, "--bind core, even"},
      {{"--cpu-bind=cores", "x"}, "--bind core, even"},
      {{"-bind-to", "core", "x"}, "-bind-to of mpiexec is not supported: --bind core, even"},
      {{"-hostfile", "h", "x"}, "-hostfile is written --hostfile here"},
      {{"-wdir", "/", "x"}, "-wdir is written --wdir here"},
      {{"-host=a", "x"}, "-host is written --host here"},
  };
  for (const Case& one : cases) EXPECT_THAT(spelling_refusal(one.line), HasSubstr(one.says));
}

// What `mpirun --help full` (Open MPI 4.1.4), `mpiexec.hydra --help` (MPICH 4.0) and `srun --help`
// (22.05, long names) list.
constexpr const char* kOpenMpi =
    "--allow-run-as-root --am --app --bind-to --bind-to-core --bind-to-socket --bycore --bynode "
    "--byslot -c -np --np --cf --cartofile --continuous --cpu-list --cpu-set --cpus-per-proc "
    "--cpus-per-rank -d --debug-devel --debug --debug-daemons --debug-daemons-file --debugger "
    "--default-hostfile --disable-recovery --display-allocation --display-devel-allocation "
    "--display-devel-map --display-diffable-map --display-map --display-topo --do-not-launch "
    "--do-not-resolve --dvm --enable-instant-on-support --enable-recovery --fwd-mpirun-port "
    "--get-stack-traces --gmca -h --help -H --host --hnp --hostfile --index-argv-by-rank "
    "--launch-agent --leave-session-attached --machinefile --map-by --max-restarts --max-vm-size "
    "--mca --merge-stderr-to-stdout -N -n --n --nolocal --nooversubscribe --noprefix --novm "
    "--npernode --npersocket --ompi-server --output-filename --output-proctable --oversubscribe "
    "--path --pernode --personality --ppr --prefix --preload-files -q --quiet --rank-by "
    "--report-bindings --report-child-jobs-separately --report-events --report-pid "
    "--report-state-on-timeout --report-uri -rf --rankfile -s --preload-binary "
    "--set-cwd-to-session-dir --show-progress --stdin --tag-output --timeout --timestamp-output "
    "--tune --tv --use-hwthread-cpus --use-regexp -v --verbose -V --version --wd --wdir -x --xml "
    "--xml-file --xterm";
constexpr const char* kHydra =
    "-genv -genvlist -genvnone -genvall -f -hosts -wdir -configfile -env -envlist -envnone -envall "
    "-n -np -launcher -launcher-exec -enable-x -disable-x -rmk -topolib -bind-to -map-by -membind "
    "-demux -verbose -info -print-all-exitcodes -iface -ppn -profile -prepend-rank "
    "-prepend-pattern -outfile-pattern -errfile-pattern -nameserver -disable-auto-cleanup "
    "-disable-hostname-propagation -order-nodes -localhost -usize -pmi-port -skip-launch-node "
    "-gpus-per-proc";
constexpr const char* kSrun =
    "--account --acctg-freq --bb --bbf --bcast --bcast-exclude --begin --cpus-per-task --comment "
    "--compress --container --cpu-freq --dependency --deadline --delay-boot --chdir --export "
    "--error --epilog --preserve-env --gres --gres-flags --hold --input --immediate --jobid "
    "--job-name --no-kill --kill-on-bad-exit --label --licenses --clusters --distribution "
    "--mail-type --mail-user --mcs-label --mpi --multi-prog --ntasks --nice --ntasks-per-node "
    "--nodes --output --overcommit --overlap --het-group --partition --power --priority --prolog "
    "--profile --propagate --pty --quit-on-interrupt --qos --quiet --reboot --relative "
    "--oversubscribe --core-spec --send-libs --signal --slurmd-debug --spread-job --switches "
    "--task-epilog --task-prolog --thread-spec --threads --time --time-min --unbuffered "
    "--use-min-nodes --verbose --wait --wckey --disable-status --cluster-constraint --contiguous "
    "--constraint --mem --mincpus --reservation --tmp --nodelist --exclude --no-allocate --exact "
    "--exclusive --mem-per-cpu --resv-ports --sockets-per-node --cores-per-socket "
    "--threads-per-core --extra-node-info --ntasks-per-core --ntasks-per-socket --cpus-per-gpu "
    "--gpus --gpu-bind --gpu-freq --gpus-per-node --gpus-per-socket --gpus-per-task --mem-per-gpu "
    "--help --usage --version";

TEST(Words, EveryWordOfTheOtherLaunchersHelpIsTakenOrRefusedByName) {
  for (const char* words : {kOpenMpi, kHydra, kSrun}) {
    for (const std::string& word : read::split(words, ' ')) {
      EXPECT_THAT(spelling_refusal({word, "1", "x"}), testing::Not(HasSubstr("there is no option")))
          << word;
      if (!why_refused(word)) continue;
      EXPECT_THAT(*why_refused(word), StartsWith(word + " of "));
    }
  }
}

TEST(Words, TheWordsThatTheGuideListsAreKnown) {
  const char* const root = std::getenv("DLRUN_TEST_SOURCE");
  const std::string guide =
      tests::read_file(std::string(root == nullptr ? "." : root) + "/docs/guides/launching.md");
  const std::size_t begin = guide.find("\nOptions of mpirun and srun, and what dlrun has for them");
  ASSERT_NE(begin, std::string::npos);
  const std::string list = guide.substr(begin, guide.find("\n## ", begin) - begin);
  int words = 0;
  // Words between backquotes: every second part.
  const std::vector<std::string> parts = read::split(list, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2) {
    const std::string word = parts[i].substr(0, parts[i].find_first_of(" =["));
    if (!word.starts_with('-')) continue;
    ++words;
    EXPECT_THAT(spelling_refusal({word, "1", "x"}), testing::Not(HasSubstr("there is no option")))
        << word;
  }
  EXPECT_GT(words, 40);
}

TEST(Words, NoRefusalProposesAWordThatIsRefused) {
  for (const OptionRow& row : option_table()) {
    for (std::size_t length = 3; length < row.name.size(); ++length) {
      const std::string said =
          spelling_refusal({std::string(row.name.substr(0, length)), "1", "x"});
      const std::size_t proposed = said.find(" may be ");
      if (proposed == std::string::npos) continue;
      for (const OptionRow& other : option_table()) {
        if (other.group != Group::kRefused) continue;
        EXPECT_EQ(said.find(other.name, proposed), std::string::npos) << said;
      }
    }
  }
  EXPECT_THAT(spelling_refusal({"--dup", "x"}),
              StartsWith("--duplicate-stdout-filters of torchrun is not supported"));
}

TEST(ShellWords, AreThoseOfAShell) {
  EXPECT_THAT(shell_words("--ssh", " ssh  -F 'my file' -o \"A=b c\" x''y"),
              ElementsAre("ssh", "-F", "my file", "-o", "A=b c", "xy"));
  EXPECT_THAT(shell_words("--ssh", R"(a\ b '\' "\"\\\n" '' c#d # remark 'x)"),
              ElementsAre("a b", "\\", "\"\\\\n", "", "c#d"));
  EXPECT_THAT(shell_words("--ssh", "  "), ElementsAre());
  EXPECT_THROW(shell_words("--ssh", "ssh 'x"), Error);
  EXPECT_THROW(shell_words("--ssh", "ssh \\"), Error);
}

}  // namespace
}  // namespace dl::launcher
