// Several programs on a line, or in a file of --app.
#include "launcher/plan/apps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "launcher/cli/options.h"
#include "launcher/plan/environment.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Options of_line(const std::vector<std::string>& words) {
  return std::get<Options>(parse_options(words));
}

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    parse_options(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

class AppFile {
 public:
  explicit AppFile(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }
  std::string path() const { return folder_.path() + "/job.app"; }

 private:
  tests::TempDir folder_;
};

std::vector<App> in_file(const std::string& text, std::vector<std::string> line = {}) {
  const AppFile file(text);
  line.insert(line.end(), {"--app", file.path()});
  return of_line(line).job.apps;
}

std::string file_refusal(const std::string& text) {
  const AppFile file(text);
  std::string why = refusal_of({"--app", file.path()});
  for (std::size_t at; (at = why.find(file.path())) != std::string::npos;) {
    why.replace(at, file.path().size(), "F");
  }
  return why;
}

TEST(Apps, EachProgramHasItsOwnOptions) {
  const Options options =
      of_line({"--grace=1", "-n", "1", "-x", "A=1",   "./a", "x", ":",   "-n3", "--wdir",
               "/tmp",      "-x", "B", "-m", "pkg.b", "y",   ":", "-np", "2",   "c.py"});
  EXPECT_EQ(options.job.np, 6);
  EXPECT_EQ(options.job.nproc_per_node, "6");
  const std::vector<App>& apps = options.job.apps;
  ASSERT_EQ(apps.size(), 3u);
  EXPECT_THAT(apps[0].program, ElementsAre("./a", "x"));
  EXPECT_THAT(apps[0].exports, ElementsAre(Exported{"A", "1"}));
  EXPECT_THAT(apps[1].program, ElementsAre("python3", "-u", "-m", "pkg.b", "y"));
  EXPECT_THAT(apps[1].exports, ElementsAre(Exported{"B", std::nullopt}));
  EXPECT_EQ(apps[1].wdir, "/tmp");
  EXPECT_THAT(apps[2].program, ElementsAre("python3", "-u", "c.py"));
  EXPECT_EQ(apps[2].script, "c.py");
  EXPECT_EQ(apps[2].wdir, "");
  for (const auto& [rank, app] : {std::pair{0, 0u}, {1, 1u}, {3, 1u}, {4, 2u}, {5, 2u}}) {
    EXPECT_EQ(options.job.app_of(rank), app) << rank;
  }
  EXPECT_EQ(of_line({"x"}).job.app_of(7), 0u);
}

TEST(Apps, ALineThatLacksAPartIsRefused) {
  for (const auto& line : std::vector<std::vector<std::string>>{
           {":"}, {":", "./b"}, {"-n", "1", "./a", ":"}, {"-n1", "./a", ":", ":", "-n1", "./b"}}) {
    EXPECT_THAT(refusal_of(line), StartsWith("no program stands on one side of a `:`"));
  }
  EXPECT_EQ(refusal_of({"-n", "1", "./a", ":", "./b"}),
            "the job has 2 programs, and `./b` has no number of ranks: write -n N before it");
  EXPECT_THAT(refusal_of({"--nproc-per-node=2", "./a", ":", "-n1", "./b"}),
              HasSubstr("`./a` has no number of ranks"));
  EXPECT_THAT(refusal_of({"-n1", "./a", ":", "-n0", "./b"}), StartsWith("--np is `0`"));
  EXPECT_EQ(refusal_of({"-n1", "./a", ":", "-n1", "--log-dir=x", "./b"}),
            "--log-dir is for the whole job: write it before the first program; -n, -m, "
            "--no-python, --run-path, -x, --wdir may stand behind `:`");
  EXPECT_THAT(refusal_of({"-n1", "./a", ":", "--help"}), HasSubstr("is for the whole job"));
  EXPECT_THAT(refusal_of({"-n1", "./a", ":", "-n1", "-x", "RANK=1", "./b"}),
              HasSubstr("dlrun gives each rank a RANK of its own"));
  EXPECT_EQ(refusal_of({"--nproc-per-node=3", "-n1", "./a", ":", "-n1", "./b"}),
            "--np is 2 on 1 node, but --nproc-per-node is 3; leave one of them out");
  EXPECT_EQ(refusal_of({"--nproc-per-node=2", "-n1", "./a", ":", "-n1", "./b"}), "accepted");
  EXPECT_THAT(refusal_of({"-n1000000", "./a", ":", "-n1", "./b"}),
              HasSubstr("have 1000001 ranks, wanted at most 1000000"));
}

TEST(Apps, StandInAFileToo) {
  const std::vector<App> apps = in_file(
      "# the job\r\n"
      "-n 1 -x B=2 ./a 'x y' a#b : # rest\r\n"
      "\n"
      "  -n 2 --wdir=/tmp -- b.py \"\"",
      {"-x", "A=1", "-x", "B=1"});
  ASSERT_EQ(apps.size(), 2u);
  EXPECT_THAT(apps[0].program, ElementsAre("./a", "x y", "a#b", ":"));
  EXPECT_THAT(apps[0].exports, ElementsAre(Exported{"A", "1"}, Exported{"B", "2"}));
  EXPECT_THAT(apps[1].program, ElementsAre("python3", "-u", "b.py", ""));
  EXPECT_THAT(apps[1].exports, ElementsAre(Exported{"A", "1"}, Exported{"B", "1"}));
  EXPECT_EQ(apps[1].wdir, "/tmp");
  EXPECT_THAT(in_file("./b.py", {"--no-python"})[0].program, ElementsAre("./b.py"));
  EXPECT_FALSE(in_file("./a", {"--nproc-per-node=2"})[0].np);
}

TEST(Apps, AFileThatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(file_refusal(""), "--app F names no program");
  EXPECT_EQ(file_refusal("# nothing\n\n"), "--app F names no program");
  EXPECT_EQ(file_refusal("-n 1 ./a\n-n 1 './b\n"), "F:2: a ' is not closed");
  EXPECT_EQ(file_refusal(std::string("-n 1 ./a \0\n", 11)), "F:1 has a byte 0, and is no text");
  EXPECT_EQ(file_refusal("-n 1 ./a\n--bogus ./b\n"),
            "F:2: there is no option --bogus; `dlrun --help` lists them all");
  EXPECT_EQ(file_refusal("-n 1 ./a\n-n 1 --hosts a ./b\n"),
            "F:2: --hosts is for the whole job: write it on dlrun's own line; -n, -m, "
            "--no-python, --run-path, -x, --wdir may stand here");
  EXPECT_EQ(file_refusal("-n 1 ./a\n./b\n"),
            "the job has 2 programs, and `./b` has no number of ranks: write -n N before it");
  EXPECT_THAT(file_refusal("-n 1\n"), StartsWith("F:1: no program"));
  EXPECT_EQ(file_refusal("./a " + std::string(200000, 'x')),
            "F:1: a word has 200000 bytes, and Linux takes less than 131072");
  EXPECT_EQ(file_refusal(std::string(5000000, 'x')), "--app F has more than 4 MiB");
  EXPECT_EQ(refusal_of({"--app", "/no/such"}), "--app /no/such: No such file or directory");
  EXPECT_EQ(refusal_of({"--app", "/tmp"}), "--app /tmp: Is a directory");
  const AppFile file("-n 1 ./a");
  EXPECT_THAT(refusal_of({"--app", file.path(), "./a"}), HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal_of({"--app", file.path(), ":", "./a"}), HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal_of({"-n", "2", "--app", file.path()}), StartsWith("--np is 2, and each"));
}

TEST(Apps, ARankHasTheVariablesOfItsProgram) {
  const Options options = of_line({"-n1", "-x", "ALL=1", "-x", "A=1", "-x", "OMP_NUM_THREADS=5",
                                   "a", ":", "-n1", "-x", "ALL=1", "-x", "DLRUN_FOLDER=no", "b"});
  EXPECT_THAT(common_exports(options.job.apps), ElementsAre(Exported{"ALL", "1"}));
  NodePlan plan;
  plan.job.started = options.job;
  plan.job.name = "j";
  plan.has_mpirun_names = true;
  plan.ranks.resize(2);
  plan.ranks[1].local_rank = 1;
  Meeting meeting;
  meeting.ranks = {0, 1};
  meeting.world_size = 2;
  const auto a = rank_environment(plan, meeting, plan.ranks[0], {});
  EXPECT_THAT(a, Contains("A=1"));
  EXPECT_THAT(a, Contains("OMP_NUM_THREADS=5"));
  EXPECT_THAT(a, Not(Contains("OMP_NUM_THREADS=1")));
  EXPECT_THAT(a, Contains("OMPI_MCA_orte_app_num=0"));
  EXPECT_THAT(a, Contains("OMPI_APP_CTX_NUM_PROCS=1 1"));
  EXPECT_THAT(a, Contains("OMPI_FIRST_RANKS=0 1"));
  const auto b = rank_environment(plan, meeting, plan.ranks[1], {});
  EXPECT_THAT(b, Not(Contains(StartsWith("A="))));
  EXPECT_THAT(b, Contains("ALL=1"));
  EXPECT_THAT(b, Contains(StartsWith("DLRUN_FOLDER=/")));
  EXPECT_THAT(b, Not(Contains("DLRUN_FOLDER=no")));
  EXPECT_THAT(b, Contains("OMPI_MCA_orte_app_num=1"));
  EXPECT_EQ(programs_as_text(options.job.apps), "program of rank 0: a\nprogram of rank 1: b\n");
}

}  // namespace
}  // namespace dl::launcher
