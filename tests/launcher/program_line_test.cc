#include "launcher/nodes/node_link.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dl::launcher {
namespace {

TEST(ProgramLine, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(line_of({"./train", "--data=/a b", "", "it's", "x,y:z"}),
            "./train '--data=/a b' '' 'it'\\''s' x,y:z");
}

TEST(ProgramLine, BaseNameIsThatOfTheProgramOrScript) {
  EXPECT_EQ(base_name_of({"/opt/a/train", "x"}), "train");
  EXPECT_EQ(base_name_of({"./train2"}), "train2");
  EXPECT_EQ(base_name_of({"/env/b/bin/python3.11", "-u", "-X", "dev", "/home/x/train.py", "-c"}),
            "train.py");
  EXPECT_EQ(base_name_of({"python", "-m", "pkg.train", "x"}), "pkg.train");
  EXPECT_EQ(base_name_of({"python3", "-c", "print(1)"}), "python");
  EXPECT_EQ(base_name_of({"sh", "-c", "exec ./train"}), "sh");
  EXPECT_EQ(base_name_of({"bash", "-ec", "exec ./train"}), "bash");
  EXPECT_EQ(base_name_of({"bash", "-e", "run.sh"}), "run.sh");
  EXPECT_EQ(base_name_of({"bash"}), "bash");
}

TEST(ProgramLine, BaseNameIsThatOfWhatAWrapperRuns) {
  for (const std::vector<std::string>& wrapper :
       std::vector<std::vector<std::string>>{{"env", "X=1"},
                                             {"/usr/bin/env", "-i", "-u", "HOME", "X=1", "Y="},
                                             {"nice", "-n", "5"},
                                             {"nice", "-5"},
                                             {"nohup"},
                                             {"timeout", "-k", "5", "60"},
                                             {"taskset", "-c", "0-3"},
                                             {"numactl", "--cpunodebind=0", "-m", "0"},
                                             {"env", "X=1", "nice", "stdbuf", "-oL"}}) {
    std::vector<std::string> line = wrapper;
    line.insert(line.end(), {"python", "a.py"});
    EXPECT_EQ(base_name_of(line), "a.py") << line_of(line);
  }
  EXPECT_EQ(base_name_of({"env", "X=1"}), "env");
  EXPECT_EQ(base_name_of({"timeout", "5"}), "timeout");
}

}  // namespace
}  // namespace dl::launcher
