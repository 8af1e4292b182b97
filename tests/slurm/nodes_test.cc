// Subcommands on the nodes of an allocation, as docs/guides/slurm.md shows them.
#include <gmock/gmock.h>

#include "tests/slurm/cluster.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AllocatedNodes : public tests::SlurmTest {
 protected:
  static std::vector<std::string> salloc(const std::string& script) {
    return {"salloc", "--quiet", "--nodes=2", "sh", "-c", script};
  }
};

TEST_F(AllocatedNodes, RunASubcommandAsAProgram) {
  const std::string dlrun = tests::program("dlrun");
  tests::Process topo(salloc(dlrun + " --nproc-per-node 1 --no-prefix " + dlrun + " topo"),
                      cluster().options());
  EXPECT_EQ(topo.wait(), 0) << topo.err();
  EXPECT_THAT(topo.out(), AllOf(HasSubstr("n1: "), HasSubstr("n2: ")));
}

TEST_F(AllocatedNodes, AreAskedByTheNamesThatScontrolShows) {
  // No sshd runs on these nodes: each is named as one that does not answer.
  tests::Process topo(
      salloc(tests::program("dlrun") + " topo --ssh false --hosts "
                                       "\"$(scontrol show hostnames | paste -sd,)\""),
      cluster().options());
  EXPECT_EQ(topo.wait(), 1);
  EXPECT_THAT(topo.err(), AllOf(HasSubstr("dlrun: host n1: "), HasSubstr("dlrun: host n2: ")));
}

}  // namespace
}  // namespace dl
