// What PyTorch programs rely on under torchrun, held without PyTorch: its environment, the error
// file, lines that come at once, and a failure that follows from a peer's not being taken for the
// cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using tests::read_file;

// dlrun with PYTHONUNBUFFERED absent from its own environment.
std::vector<std::string> dlrun_buffered(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"env", "-u", "PYTHONUNBUFFERED", tests::program("dlrun"),
                                       "--nproc-per-node=" + std::to_string(ranks)});
  return arguments;
}
std::vector<std::string> shell_buffered(int ranks, const std::string& script) {
  return dlrun_buffered(ranks, {"sh", "-c", script});
}

std::string first_line_of_dlrun(const std::string& err) {
  const std::size_t begin = err.find("dlrun: ");
  return begin == std::string::npos ? "" : err.substr(begin, err.find('\n', begin) - begin);
}

// As torch's `record` writes it.
constexpr const char* kError =
    R"('{"message": {"message": "ValueError: bad batch", "extraInfo": )"
    R"({"py_callstack": "Traceback (most recent call last):\n  in main\nValueError: bad batch\n"}}}')";

TEST(Torch, FindsTorchrunsEnvironment) {
  tests::Process job(dlrun_buffered(1, {"env"}));
  EXPECT_EQ(job.wait(), 0);
  const std::string out = job.out();
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS"}) {
    EXPECT_THAT(out, HasSubstr(std::string("[rank 0] ") + name + "="));
  }
  EXPECT_THAT(out, HasSubstr("[rank 0] PYTHONUNBUFFERED=1\n"));
}

TEST(Torch, TheErrorFilesMessageIsTheCauseAndComesFirst) {
  tests::Process job(shell_buffered(2, std::string("test $RANK = 0 && exec sleep 300; printf %s ") +
                                           kError + " > $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(first_line_of_dlrun(job.err()), HasSubstr("rank 1 (node 0"));
  EXPECT_THAT(first_line_of_dlrun(job.err()), HasSubstr(" s: ValueError: bad batch"));
  EXPECT_THAT(job.err(), HasSubstr("dlrun:   it left in its error file:\n"
                                   "dlrun:     | Traceback (most recent call last):\n"
                                   "dlrun:     |   in main\n"
                                   "dlrun:     | ValueError: bad batch\n"));
}

TEST(Torch, AStackThatStandsOnStderrIsNotShownTwice) {
  tests::Process job(
      shell_buffered(1, std::string("echo '[rank0]: ValueError: bad batch' >&2; printf %s ") +
                            kError + " > $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), HasSubstr("dlrun:     | [rank0]: ValueError: bad batch\n"));
  EXPECT_THAT(job.err(), Not(HasSubstr("error file")));
}

TEST(Torch, AnErrorFileOfAnotherShapeIsShownAsItIs) {
  tests::Process job(shell_buffered(1, "echo 'out of memory' > $TORCHELASTIC_ERROR_FILE; exit 3"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_THAT(first_line_of_dlrun(job.err()), HasSubstr(" s: out of memory"));
}

TEST(Torch, TheLogDirectoryKeepsOnlyTheFailedRanksErrorFile) {
  const tests::TempDir folder;
  tests::Process job(dlrun_buffered(2, {"--log-dir", folder.path(), "sh", "-c",
                                        "test $RANK = 0 && exec sleep 300; "
                                        "echo broken > $TORCHELASTIC_ERROR_FILE; exit 5"}));
  EXPECT_EQ(job.wait(), 5);
  const std::string logs = folder.path() + "/latest/attempt_0/";
  EXPECT_FALSE(std::filesystem::exists(logs + "0/error.json"));
  EXPECT_EQ(read_file(logs + "1/error.json"), "broken\n");
}

TEST(Torch, ARankThatSaysItLostAPeerIsNotTheCause) {
  // Rank 1 closes its connections, rank 0 dies of that, and only then rank 1 ends.
  const tests::TempDir folder;
  const tests::Gate gate;
  tests::Process job(shell_buffered(
      2, "cd " + folder.path() + "; echo $$ > $RANK; echo up $$; " + gate.wait() +
             "if test $RANK = 0; then"
             "  echo 'RuntimeError: Connection closed by peer [127.0.0.1]:13035' >&2; exit 1; fi;"
             "while kill -0 $(cat 0) 2> /dev/null; do sleep 0.01; done;"
             "echo 'ValueError: bad batch' >&2; exit 9"));
  ASSERT_TRUE(tests::end_in_order_while_asleep(job, gate)) << job.out() << job.err();
  EXPECT_EQ(job.wait(), 9);
  EXPECT_THAT(first_line_of_dlrun(job.err()), HasSubstr("rank 1 (node 0"));
  EXPECT_THAT(job.err(), HasSubstr("rank 0: lost a peer, ended with exit code 1"));
}

TEST(Torch, ALostPeerIsTheCauseIfNoOtherRankFails) {
  tests::Process job(shell_buffered(2,
                                    "test $RANK = 1 && exec sleep 300;"
                                    "echo 'RuntimeError: Connection reset by peer' >&2; exit 4"));
  EXPECT_EQ(job.wait(), 4);
  EXPECT_THAT(first_line_of_dlrun(job.err()), HasSubstr("rank 0 (node 0"));
  EXPECT_THAT(job.err(), HasSubstr("it seems to have lost a peer"));
}

class Python : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2> /dev/null") != 0) GTEST_SKIP() << "no python3";
  }
};

TEST_F(Python, NoLineIsLate) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  tests::Process job(dlrun_buffered(1, {"python3", "-c", "print('ready'); input(); print('done')"}),
                     {.stdin_fd = ends[0]});
  EXPECT_TRUE(job.wait_for_out("[rank 0] ready\n"));  // while it waits for input
  ASSERT_EQ(::write(ends[1], "\n", 1), 1);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out(), HasSubstr("[rank 0] done\n"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Python, NoLineIsLostIfARankExitsAtOnce) {
  tests::Process job(dlrun_buffered(
      2, {"python3", "-c",
          "import os\nfor i in range(500): print(f'line {i:03}')\n"
          "print('no newline', end='')\nos._exit(7 if os.environ['RANK'] == '1' else 0)"}));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] line 499\n"));
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] no newline\n"));
}

}  // namespace
}  // namespace dl
