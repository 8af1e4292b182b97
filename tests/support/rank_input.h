// What rank 0 reads from its standard input, whatever starts the job: one table of cases.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::tests {

// Runs a line of sh in a place from which the job can be started.
using InShell = std::function<std::unique_ptr<Process>(const std::string& script)>;

// `dlrun`: the line of a job of at least two ranks, up to the program; its ranks have the working
// directory of the shell.
inline void expect_input_goes_to_rank0(const InShell& in_shell, const std::string& dlrun) {
  const TempDir here;
  std::string input;
  // More than all buffers on the way: those of srun and of a socket hold 6 MB.
  for (int i = 0; input.size() < 10'000'000; ++i) input += "line " + std::to_string(i) + "\n";
  std::ofstream(here.path() + "/input", std::ios::binary) << input;
  const auto content = [&](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(here.path() + "/" + name, std::ios::binary).rdbuf();
    return text.str();
  };
  const std::string all = dlrun + " sh -c 'cat > got.$RANK'";
  // The first attempt reads one line, byte by byte, as `read` of sh does.
  const std::string twice =
      dlrun +
      " --max-restarts 1 sh -c 'case $TORCHELASTIC_RESTART_COUNT.$RANK in 0.0) read -r line; "
      "echo \"$line\" > got.first; exit 3;; 0.*) exec sleep 300;; *) cat > got.$RANK;; esac'";
  struct Case {
    std::string script;
    std::string first;  // what the first attempt has read
  };
  for (const Case& one :
       {Case{"exec " + all + " < input", ""}, Case{"cat input | " + all, ""},
        Case{"exec " + twice + " < input", "line 0\n"}, Case{"cat input | " + twice, "line 0\n"}}) {
    const auto job = in_shell("cd " + here.path() + "; rm -f got.*; " + one.script);
    EXPECT_EQ(job->wait(), 0) << one.script << job->err();
    EXPECT_EQ(content("got.first"), one.first) << one.script;
    EXPECT_TRUE(content("got.0") == input.substr(one.first.size()))
        << one.script << content("got.0").size();
    EXPECT_EQ(content("got.1"), "") << one.script;
  }
}

inline void expect_input_may_be_left_unread(const InShell& in_shell, const std::string& dlrun) {
  const auto job = in_shell("yes | " + dlrun + " sh -c 'test $RANK != 0 || head -n 2'");
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[rank 0] y\n[rank 0] y\n");
}

}  // namespace dl::tests
