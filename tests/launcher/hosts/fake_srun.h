// An srun of a test's own, along PATH: it runs the program once for each of --nodelist, all on this
// machine or, if `ssh` is given, each on the host of that name.
//
//   const tests::FakeSrun srun;
//   tests::Process topo(dlrun({"topo"}), srun.in_allocation("n[1-2]"));
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::tests {

class FakeSrun {
 public:
  // `ssh`: words that run a line on the host that follows them.
  explicit FakeSrun(const std::string& ssh = "") {
    std::ofstream(path("srun")) << R"sh(#!/bin/sh
folder=$(dirname "$0")
nodes=
while :; do
  case $1 in
    --nodelist=*) nodes=${1#*=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
if test -e "$folder/program"; then
  shift
  read -r program <"$folder/program"
  set -- "$program" "$@"
fi
cat >"$folder/questions.$$"
echo "$nodes" >>"$folder/steps"
if test -e "$folder/deaf"; then
  trap "" TERM INT HUP
  sleep 1000 &
  echo $! >"$folder/child"
  wait
  sleep 1000
fi
if test -e "$folder/hangs"; then
  echo "srun: error: the controller is busy" >&2
  exec sleep 1000
fi
for node in $(echo "$nodes" | tr , ' '); do
  if test -e "$folder/$node.lost" && test "$nodes" != "$node"; then exec sleep 1000; fi
  if test -e "$folder/$node.down" || test -e "$folder/$node.lost"; then
    echo "srun: error: Task launch for StepId=7.0 failed on node $node: no connection" >&2
    exit 1
  fi
done
printf 'a prolog says hello'
for node in $(echo "$nodes" | tr , ' '); do
  task="env SLURMD_NODENAME=$node SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0"
  task="$task SLURM_STEP_NUM_TASKS=2"
  )sh" << (ssh.empty() ? "" : ssh + " $node ")
                                << R"sh($task "$@" <"$folder/questions.$$" &
done
wait
)sh";
    ::chmod(path("srun").c_str(), 0755);
  }

  const std::string& folder() const { return folder_.path(); }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  // Steps on this node fail.
  void take_down(const std::string& node) const { std::ofstream(path(node + ".down")); }
  // Steps on this node and others wait, and one on this node alone fails.
  void lose(const std::string& node) const { std::ofstream(path(node + ".lost")); }
  // Runs this program in place of the one on its line.
  void replace_program(const std::string& program) const {
    std::ofstream(path("program")) << program << "\n";
  }
  // Steps begin, and no task of them answers.
  void hang() const { std::ofstream(path("hangs")); }
  // As hang(), and the srun ignores the signals that end programs.
  void hang_deaf() const { std::ofstream(path("deaf")); }
  // A process of the last such srun.
  pid_t deaf_child() const {
    pid_t child = 0;
    std::ifstream(path("child")) >> child;
    return child;
  }
  // The nodes of each step so far.
  std::vector<std::string> steps() const {
    std::ifstream file(path("steps"));
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  std::vector<std::string> variables(const std::string& nodes) const {
    return {"PATH=" + folder_.path() + ":" + std::getenv("PATH"), "SLURM_JOB_ID=7",
            "SLURM_JOB_NODELIST=" + nodes};
  }
  Process::Options in_allocation(const std::string& nodes,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = variables(nodes);
    all.insert(all.end(), more.begin(), more.end());
    return {.environment = all};
  }

 private:
  TempDir folder_;
};

}  // namespace dl::tests
