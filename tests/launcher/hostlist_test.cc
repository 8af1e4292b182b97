#include "launcher/slurm/hostlist.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "launcher/slurm/munge.h"
#include "launcher/slurm/slurm_conf.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

TEST(Hostlist, IsExpandedAsScontrolDoes) {
  struct Case {
    const char* text;
    Names names;
  };
  for (const Case& one : {
           Case{"n1", {"n1"}},
           Case{"n[1-3,07],m4", {"n1", "n2", "n3", "n07", "m4"}},
           Case{"n[08-11]", {"n08", "n09", "n10", "n11"}},
           Case{"n[9-10]-ib", {"n9-ib", "n10-ib"}},
           Case{"r[1-2]n[01-02]", {"r1n01", "r1n02", "r2n01", "r2n02"}},
           Case{"a,b,a", {"a", "b", "a"}},
           Case{"node.example.org,n[3]", {"node.example.org", "n3"}},
           Case{"[1-2]", {"1", "2"}},
       }) {
    EXPECT_EQ(expand_hostlist(one.text), one.names) << one.text;
  }
}

TEST(Hostlist, ThatIsNoneIsRefusedAndQuoted) {
  for (const char* const text : {"", ",", "a,", ",a", "n[", "n[]", "n]", "n[1-3", "n[3-1]", "n[1-]",
                                 "n[-1]", "n[a]", "n[1,,2]", "n[1-2-3]", "n[[1]]", "n[1-99999999]",
                                 "n[0-9999][0-9999]", "n[1-99999999999999999999]"}) {
    try {
      expand_hostlist(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kParse);
      EXPECT_THAT(error.what(), HasSubstr("is no list of hosts of SLURM's")) << text;
    }
  }
}

TEST(Counts, HaveOneNumberANode) {
  EXPECT_THAT(expand_counts("8(x2),4"), ElementsAre(8, 8, 4));
  EXPECT_THAT(expand_counts("1"), ElementsAre(1));
  for (const char* const text :
       {"", "8(x2", "8(x0)", "8(2)", "(x2)", "8,", "-1", "x", "1(x99999999)", "8(x2)3"}) {
    EXPECT_THROW(expand_counts(text), Error) << text;
  }
}

TEST(Munge, ListensWhereSlurmsConfigurationSays) {
  EXPECT_EQ(munge_socket_in("ClusterName=x\n authinfo = socket=/run/a b\n"), "/run/a");
  EXPECT_EQ(munge_socket_in("AuthInfo=cred_expire=5,socket=/run/a,ttl=3\r\n"), "/run/a");
  EXPECT_EQ(munge_socket_in("AuthInfo=socket=/run/a\nAuthInfo=socket=/run/b # last"), "/run/b");
  // As `scontrol show config` writes it.
  EXPECT_EQ(munge_socket_in("AuthType                = auth/munge\n"
                            "AuthInfo                = socket=/run/c,cred_expire=5\n"),
            "/run/c");
  for (const char* const text :
       {"", "AuthInfo", "AuthInfo=", "AuthInfo=cred_expire=5", "AuthInfos",
        "#AuthInfo=socket=/run/a", "AuthInfo = (null)\n", "AuthInfo\n=x"}) {
    EXPECT_EQ(munge_socket_in(text), "") << text;
  }
}

TEST(Munge, IsUnavailableWithoutItsDaemonOrSlurmsUse) {
  const tests::TempDir folder;
  const std::string conf = folder.path() + "/slurm.conf";
  const std::string socket = folder.path() + "/socket";
  std::ofstream(socket) << "";  // as a daemon that was killed leaves it
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);  // no scontrol, which could name another socket
  ::setenv("SLURM_CONF", conf.c_str(), 1);
  std::ofstream(conf) << "AuthInfo=socket=" << socket << "\n";
  EXPECT_FALSE(has_munge());
  ::unsetenv("SLURM_CONF");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(may_use_munge(""));
  EXPECT_TRUE(may_use_munge("AuthType=auth/munge\n"));
  EXPECT_FALSE(may_use_munge("authtype = auth/slurm\n"));
}

TEST(Srun, IsAskedForNoBindingOnlyIfSlurmBinds) {
  EXPECT_TRUE(may_bind_tasks(""));
  EXPECT_TRUE(may_bind_tasks("ClusterName=x\nInclude /etc/slurm/more.conf\n"));
  EXPECT_TRUE(may_bind_tasks("TaskPlugin=task/affinity,task/cgroup\n"));
  EXPECT_TRUE(may_bind_tasks("TaskPlugin              = affinity\n"));
  EXPECT_FALSE(may_bind_tasks("TaskPlugin=task/none\n"));
  EXPECT_FALSE(may_bind_tasks("TaskPlugin=task/cgroup\n"));
  EXPECT_FALSE(may_bind_tasks("ClusterName=x\n#TaskPlugin=task/affinity\nTaskPluginParam=None\n"));
}

}  // namespace
}  // namespace dl::launcher
