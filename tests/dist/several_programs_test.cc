// Jobs of several programs, as with mpirun: `dlrun -n 1 ./a : -n 3 ./b`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::Process;

class SeveralPrograms : public testing::Test {
 protected:
  SeveralPrograms() {
    for (const std::string name : {"server", "worker"}) {
      const std::string path = folder_.path() + "/" + name;
      std::ofstream(path) << "#!/bin/sh\necho " << name
                          << " $RANK/$WORLD_SIZE $OMPI_MCA_orte_app_num \"$*\" A=$A $(pwd -P)\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
  }
  // The two programs with ranks 0 and 1 to 3.
  std::string a() const { return folder_.path() + "/server"; }
  std::string b() const { return folder_.path() + "/worker"; }
  std::string here() const { return std::filesystem::current_path(); }

  static std::vector<std::string> line(std::vector<std::string> words) {
    words.insert(words.begin(), tests::program("dlrun"));
    return words;
  }

  tests::TempDir folder_;
};

TEST_F(SeveralPrograms, EachRankRunsItsOwnWithItsOwnOptions) {
  Process job(line({"-n", "1", "-x", "A=1", a(), "x", ":", "-n", "3", "--wdir", folder_.path(),
                    "./worker", "y z", "::"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(),
              AllOf(HasSubstr("[rank 0] server 0/4 0 x A=1 " + here() + "\n"),
                    HasSubstr("[rank 1] worker 1/4 1 y z :: A= " + folder_.path() + "\n"),
                    HasSubstr("[rank 3] worker 3/4 1 y z :: A= ")));
}

TEST_F(SeveralPrograms, AFileNamesThem) {
  const std::string file = folder_.path() + "/job.app";
  std::ofstream(file) << "# two programs\n-n 1 " << a() << " 'x  y'\n-n 2 " << b() << " :\n";
  Process job(line({"--app", file}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 0] server 0/3 0 x  y A="),
                               HasSubstr("[rank 2] worker 2/3 1 : A=")));
}

TEST_F(SeveralPrograms, TheFirstCauseIsNamedAsEver) {
  Process job(line(
      {"-n1", "sleep", "300", ":", "-n2", "sh", "-c", "test $RANK = 1 && exit 3; exec sleep 300"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_THAT(job.err(), HasSubstr("dlrun: rank 1 (node 0"));
  EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(job.mark()).empty(); }));
}

TEST_F(SeveralPrograms, OneThatCannotBeStartedIsSaidBeforeAnyRank) {
  Process missing(line({"-n1", a(), ":", "-n1", folder_.path() + "/none"}));
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_EQ(missing.out(), "");
  EXPECT_THAT(missing.err(), HasSubstr("there is no program " + folder_.path() + "/none"));
  Process script(line({"-n1", a(), ":", "-n1", "--wdir", folder_.path(), "none.py"}));
  EXPECT_EQ(script.wait(), 127);
  EXPECT_THAT(script.err(), HasSubstr("there is no script " + folder_.path() + "/none.py"));
  Process nowhere(line({"-n1", a(), ":", "-n1", "--wdir", "/no/such", b()}));
  EXPECT_EQ(nowhere.wait(), 2);
  EXPECT_THAT(nowhere.err(),
              HasSubstr("dlrun: --wdir /no/such: No such file or directory; make it, "
                        "or give another\n"));
  EXPECT_EQ(nowhere.out(), "");
}

TEST_F(SeveralPrograms, BeginAgainTogether) {
  Process job(line({"--max-restarts=1", "-n1", a(), ":", "-n1", "sh", "-c",
                    "echo try $TORCHELASTIC_RESTART_COUNT; exit $((1 - "
                    "TORCHELASTIC_RESTART_COUNT))"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[rank 1] try 0\n"), HasSubstr("[rank 1] try 1\n")));
}

TEST_F(SeveralPrograms, RunOnTwoNodes) {
  const tests::TempDir home;
  const auto node = [&](int number, const std::string& endpoint) {
    return std::make_unique<Process>(
        line({"--nnodes=2", "--node-rank=" + std::to_string(number), "--rdzv-endpoint=" + endpoint,
              "--rank-by=node", "-n1", a(), ":", "-n3", b()}),
        Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path()}});
  };
  const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
  const auto first = node(0, endpoint);
  const auto second = node(1, endpoint);
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  EXPECT_THAT(first->out(),
              AllOf(HasSubstr("[rank 0] server 0/4 0"), HasSubstr("[rank 2] worker 2/4 1")));
  EXPECT_THAT(second->out(),
              AllOf(HasSubstr("[rank 1] worker 1/4 1"), HasSubstr("[rank 3] worker 3/4 1")));
}

TEST_F(SeveralPrograms, RunOnHostsOfWhichEachNeedsItsOwnAlone) {
  // An ssh that runs the line here.
  const std::string ssh = folder_.path() + "/ssh";
  std::ofstream(ssh) << "#!/bin/sh\nfor line; do :; done\nexec sh -c \"$line\"\n";
  std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
  Process job(line({"--ssh", ssh, "--hosts=localhost:1,b:3", "-n", "1", "-x", "A=1", a(), ":", "-n",
                    "3", "--wdir", folder_.path(), "./worker", ":", "-n1", "true"}));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_THAT(job.err(), HasSubstr("--np is 5, and the hosts have 4 slots"));
  Process right(line({"--ssh", ssh, "--hosts=localhost:1,b:3", "-n", "1", "-x", "A=1", a(), ":",
                      "-n", "3", "--wdir", folder_.path(), "--", "./worker", ":"}));
  EXPECT_EQ(right.wait(), 0) << right.err();
  EXPECT_THAT(right.out(), AllOf(HasSubstr("[rank 0] server 0/4 0  A=1 " + here() + "\n"),
                                 HasSubstr("[rank 1] worker 1/4 1 : A= " + folder_.path() + "\n"),
                                 HasSubstr("[rank 3] worker 3/4 1 : A= ")));
  Process none(line({"--ssh", ssh, "--hosts=localhost:1,b:1", "-n1", a(), ":", "-n1", "./none"}));
  EXPECT_EQ(none.wait(), 127);
  EXPECT_THAT(none.err(), AllOf(HasSubstr("host b: there is no program ./none"),
                                Not(HasSubstr("host localhost:"))));
}

TEST_F(SeveralPrograms, DryRunOnHostsIsJsonIfAsked) {
  Process job(line({"--dry-run", "--json", "--hosts=b:1,c:3", "-n1", a(), ":", "-n3", b()}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(testing::StartsWith("{\n  \"job\": \""), testing::EndsWith("\n}\n"),
                               HasSubstr("\"starter\": \"ssh\"")));
}

TEST_F(SeveralPrograms, DryRunSaysWhoRunsWhat) {
  Process job(line({"--dry-run", "-n1", a(), ":", "-n3", b(), "y"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), AllOf(HasSubstr("program of rank 0: " + a() + "\n"),
                               HasSubstr("program of ranks 1 to 3: " + b() + " y\n")));
}

}  // namespace
}  // namespace dl
