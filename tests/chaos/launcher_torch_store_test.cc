// The agent store of a job: who is served, what rank 0's death does not take along, and that a
// program may have MASTER_PORT for itself. PyTorch is not needed: torch_store_probe speaks as it
// does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace dl {
namespace {

using testing::HasSubstr;
using testing::Not;

// dlrun takes what `env` runs for a program that may be PyTorch's.
std::vector<std::string> job(int ranks, const std::string& what,
                             const std::vector<std::string>& options = {}) {
  std::vector<std::string> line = {tests::program("dlrun"),
                                   "--nproc-per-node=" + std::to_string(ranks)};
  line.insert(line.end(), options.begin(), options.end());
  line.insert(line.end(), {"env", tests::program("../tests/torch_store_probe"), what});
  return line;
}
// The program itself, which is native.
std::vector<std::string> native(const std::string& what) {
  return {tests::program("dlrun"), "--nproc-per-node=1",
          tests::program("../tests/torch_store_probe"), what};
}

TEST(AgentStore, ServesTheRanks) {
  tests::Process process(job(3, "meet"));
  EXPECT_EQ(process.wait(), 0) << process.err();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(process.out(), HasSubstr(std::string("[rank ") + rank + "] all are here\n"));
  }
  EXPECT_EQ(process.err(), "");
}

TEST(AgentStore, ServesAtThePortThatTheUserGives) {
  tests::Process process(job(2, "meet", {"--master-port", std::to_string(tests::free_port())}));
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST(AgentStore, OutlivesRank0) {
  tests::Process process(job(2, "outlive", {"--grace", "300"}));
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  EXPECT_THAT(process.out(), HasSubstr("[rank 1] left by rank 0, and still by rank 0\n"));
  EXPECT_THAT(process.err(), HasSubstr("rank 0 (node 0"));
}

TEST(AgentStore, ClosesAStrangersConnectionAndSaysSo) {
  tests::Process process(job(1, "stranger"));
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("dlrun: PyTorch's store at 127.0.0.1:"));
  EXPECT_THAT(process.err(), HasSubstr(": its first byte is 0x47, wanted 0x00 (VALIDATE)\n"));
  EXPECT_THAT(process.out(), HasSubstr("all are here\n"));
}

TEST(AgentStore, LeavesANativeProgramItsPort) {
  tests::Process process(native("listen"));
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST(AgentStore, ServesANativeProgramIfTold) {
  tests::Process process(native("meet"), {.environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=0"}});
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST(AgentStore, IsNotThereIfTold) {
  const tests::Process::Options off = {.environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"}};
  tests::Process process(job(1, "listen"), off);
  EXPECT_EQ(process.wait(), 0) << process.err();
  tests::Process flag({tests::program("dlrun"), "--nproc-per-node=1", "env"}, off);
  EXPECT_EQ(flag.wait(), 0) << flag.err();
  EXPECT_THAT(flag.out(), HasSubstr("TORCHELASTIC_USE_AGENT_STORE=False\n"));
}

TEST(AgentStore, IsNamedToAProgramThatWantsItsPort) {
  const char* const hint =
      "dlrun:   dlrun serves PyTorch's store at MASTER_PORT; for a program that listens there "
      "itself "
      "set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1\n";
  tests::Process process(job(1, "listen"));
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("Address already in use"));
  EXPECT_THAT(process.err(), HasSubstr(hint));
  // Though the store has had a client.
  tests::Process used(job(2, "own"));
  EXPECT_EQ(used.wait(), 1);
  EXPECT_THAT(used.err(), HasSubstr(hint));
  tests::Process other({tests::program("dlrun"), "--nproc-per-node=1", "sh", "-c",
                        "echo something else >&2; exit 1"});
  EXPECT_EQ(other.wait(), 1);
  EXPECT_THAT(other.err(), Not(HasSubstr("MASTER_PORT")));
}

TEST(AgentStore, IsRank0sWhereMasterAddrIsAnotherHosts) {
  tests::Process process(
      {tests::program("dlrun"), "--nproc-per-node=1", "--master-addr=192.0.2.1", "env"});
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("dlrun: rank 0 serves PyTorch's store, not dlrun: listen on "
                                       "192.0.2.1:"));
  EXPECT_THAT(process.out(), HasSubstr("TORCHELASTIC_USE_AGENT_STORE=False\n"));
}

}  // namespace
}  // namespace dl
