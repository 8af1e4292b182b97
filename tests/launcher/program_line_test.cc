#include "launcher/nodes/program_line.h"

#include <gtest/gtest.h>

namespace dl::launcher {
namespace {

TEST(ProgramLine, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(line_of({"./train", "--data=/a b", "", "it's", "x,y:z"}),
            "./train '--data=/a b' '' 'it'\\''s' x,y:z");
}

TEST(ProgramLine, BaseNameIsThatOfTheProgramOrOfTheScriptThatAnInterpreterRuns) {
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

}  // namespace
}  // namespace dl::launcher
