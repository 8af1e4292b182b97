#include "launcher/remote/ssh/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace dl::launcher::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

AgentCommand by_ssh() {
  return agent_command({"sh", "-F", "f"}, "b", "/opt/it's/dlrun");
}

TEST(SshCommand, IsTheUsersOwnWithBatchModeAndOneQuotedCommand) {
  const AgentCommand command = by_ssh();
  EXPECT_EQ(command.argv[1], "-F");
  EXPECT_THAT(command.argv, testing::Contains("BatchMode=yes"));
  EXPECT_THAT(command.argv, testing::Contains("ConnectTimeout=5"));
  const std::size_t n = command.argv.size();
  EXPECT_EQ(command.argv[n - 2], "b");
  EXPECT_EQ(command.argv[n - 3], "--");
  EXPECT_EQ(command.argv[n - 1], "exec '/opt/it'\\''s/dlrun' --as-remote-agent");
}

TEST(SshCommand, ThisHostNeedsNoSsh) {
  const AgentCommand command = agent_command({"no-such-ssh"}, "localhost", "/opt/dlrun");
  EXPECT_FALSE(command.by_ssh);
  EXPECT_THAT(command.argv, ElementsAre("/opt/dlrun", "--as-remote-agent"));
}

TEST(SshCommand, AnSshThatIsNotThereIsRefused) {
  EXPECT_THROW(agent_command({"no-such-ssh"}, "b", "/opt/dlrun"), Error);
}

TEST(SshFailure, IsOneSentenceWithTheHostsName) {
  struct Row {
    int exit_code;
    const char* said;
    const char* sentence;
  };
  for (const Row& row : {
           Row{255, "No ED25519 host key is known\r\nHost key verification failed.\r\n",
               "host b: ssh does not know the host's key"},
           Row{255, "root@b: Permission denied (publickey,password).\r\n",
               "host b: ssh cannot log in without a password"},
           Row{255, "ssh: Could not resolve hostname b: Name or service not known\r\n",
               "host b: there is no host of this name"},
           Row{255, "ssh: connect to host b port 22: Connection timed out\r\n",
               "host b does not answer within 5 s"},
           Row{255, "ssh: connect to host b port 22: Connection refused\r\n",
               "host b: ssh cannot connect: ssh: connect to host b port 22: Connection refused"},
           Row{255, "", "host b: ssh failed without a word"},
           Row{127, "sh: 1: exec: /opt/dlrun: not found\n", "host b has no dlrun at /opt/dlrun;"},
           Row{127, "/opt/dlrun: error while loading shared libraries: libx.so: cannot open\n",
               "host b: /opt/dlrun cannot be started: /opt/dlrun: error while loading shared"},
           Row{127, "bash: /no/zsh: No such file or directory\n",
               "host b: ssh ended with exit code 127 before its dlrun answered: bash: /no/zsh: No"},
           Row{126, "bash: /no/zsh: Permission denied\n",
               "host b: ssh ended with exit code 126 before its dlrun answered: bash: /no/zsh"},
           Row{2, "", "host b: ssh ended with exit code 2 before its dlrun answered"},
           Row{2, "bash: syntax error\n", "before its dlrun answered: bash: syntax error"},
           Row{126, "sh: 1: exec: /opt/dlrun: Permission denied\n",
               "host b: /opt/dlrun cannot be executed: "},
           Row{2, "dlrun: --as-remote-agent is no option\n",
               "host b has another version of dlrun at /opt/dlrun"},
           Row{3, "", "host b: ssh ended with exit code 3 before its dlrun answered"},
       }) {
    const std::string text =
        why_not_started("b", by_ssh(), {row.exit_code << 8, row.said}, "/opt/dlrun");
    EXPECT_THAT(text, HasSubstr(row.sentence));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
  }
}

TEST(SshFailure, OfAnAccountWithoutALoginIsWhatItWrites) {
  const std::string_view noise = "\nThis account is currently not available.\n";
  EXPECT_EQ(why_not_started("b", by_ssh(), {1 << 8, "", noise}, "/opt/dlrun"),
            "host b: ssh ended with exit code 1 before its dlrun answered; it said on its standard "
            "output: This account is currently not available.");
  EXPECT_EQ(why_not_started("b", by_ssh(), {1 << 8, "Warning: a new key\n", noise}, "/opt/dlrun"),
            "host b: ssh ended with exit code 1 before its dlrun answered: Warning: a new key; and "
            "on its standard output: This account is currently not available.");
}

}  // namespace
}  // namespace dl::launcher::remote
