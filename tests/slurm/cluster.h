// A SLURM of a test's own: munged, slurmctld and two slurmd on this machine, with nodes n1 and n2.
// It is up in about 1.5 s and ends with the object, and with the test if that is killed; so do all
// jobs in it (cluster.sh). Needs root and Debian's slurm-wlm and munge.
//
//   class Jobs : public tests::SlurmTest { ... };   // one cluster for all tests of a program
//   const tests::Process job(cluster().line({"srun", "-N2", "hostname"}), cluster().options());
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::tests {

class SlurmCluster {
 public:
  // Empty: a cluster can be started here.
  static std::string why_not() {
    if (::geteuid() != 0) return "no SLURM of our own: its nodes need namespaces, which need root";
    for (const char* const program : {"munged", "slurmctld", "slurmd", "srun"}) {
      const std::string look = std::string("command -v ") + program + " > /dev/null";
      if (std::system(look.c_str()) != 0) {
        return std::string("no SLURM of our own: no ") + program +
               "; apt-get install slurm-wlm munge";
      }
    }
    if (std::system("unshare --pid --fork --mount --mount-proc --uts true 2> /dev/null") != 0) {
      return "no SLURM of our own: this container allows no namespaces";
    }
    return "";
  }

  SlurmCluster() {
    ::chmod(folder_.path().c_str(), 0755);  // slurmd checks it
    std::vector<std::string> line = {std::string(DLRUN_TEST_SLURM) + "/cluster.sh", folder_.path()};
    for (int i = 0; i < 3; ++i) line.push_back(std::to_string(free_port()));
    daemons_ = std::make_unique<Process>(line);
    const bool is_up = eventually([this] {
      if (daemons_->has_ended()) throw std::runtime_error("SLURM did not start: " + logs());
      Process info({"sinfo", "--noheader", "--partition=main", "--format=%T"}, options());
      return info.wait() == 0 && info.out() == "idle\n";
    });
    if (!is_up) throw std::runtime_error("SLURM does not come up: " + logs());
  }

  const std::string& folder() const { return folder_.path(); }
  // The environment of a user of this cluster, and of no other job around the test.
  Process::Options options(std::vector<std::string> more = {}) const {
    more.push_back("SLURM_CONF=" + folder() + "/slurm.conf");
    return {.environment = std::move(more)};
  }

  // What a command of SLURM's answers; throws if it fails.
  std::string ask(const std::vector<std::string>& line,
                  const std::vector<std::string>& environment = {}) const {
    // A job keeps the environment of sbatch, and must outlive the Process: without its mark.
    std::vector<std::string> unmarked = {"env", "-u", "DLRUN_TEST_MARK"};
    unmarked.insert(unmarked.end(), line.begin(), line.end());
    Process command(unmarked, options(environment));
    if (command.wait() != 0) throw std::runtime_error(line[0] + ": " + command.err());
    return command.out();
  }
  // sbatch: the job's number. Its output is in folder()/<number>.out.
  // `environment`: not by --export, which makes SLURM log the user in anew, for up to a minute.
  std::string submit(const std::string& script, std::vector<std::string> line = {},
                     const std::vector<std::string>& environment = {}) const {
    line.insert(line.begin(), {"sbatch", "--parsable", "--output=" + folder() + "/%j.out"});
    const std::string file = folder() + "/" + new_mark().substr(new_mark().find('=') + 1) + ".sh";
    std::ofstream(file) << script;
    line.push_back(file);
    std::string number = ask(line, environment);
    return number.substr(0, number.find('\n'));
  }
  std::string output_of(const std::string& job) const {
    std::ifstream file(folder() + "/" + job + ".out");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // "RUNNING", "COMPLETED", ...; empty: SLURM has forgotten the job.
  std::string field(const std::string& job, const std::string& name) const {
    const std::string text = " " + ask({"scontrol", "--oneliner", "show", "job", job});
    const std::size_t at = text.find(" " + name + "=");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 2;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  std::string state(const std::string& job) const { return field(job, "JobState"); }
  // Waits for the end; the exit code as scontrol shows it, "75:0".
  std::string wait(const std::string& job) const {
    const bool has_ended = eventually(std::chrono::seconds(120), [&] {
      const std::string now = state(job);
      return now != "PENDING" && now != "RUNNING" && now != "COMPLETING" && now != "CONFIGURING" &&
             now != "REQUEUED";
    });
    if (!has_ended) throw std::runtime_error("job " + job + " is still " + state(job));
    return field(job, "ExitCode");
  }
  // Live processes of jobs and steps: all but the cluster's own.
  std::vector<std::string> processes_of_jobs() const {
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0) continue;
      std::ifstream file(entry.path() / "environ", std::ios::binary);
      bool is_here = false;
      bool is_of_job = false;
      for (std::string variable; std::getline(file, variable, '\0');) {
        is_here = is_here || variable == "SLURM_CONF=" + folder() + "/slurm.conf";
        is_of_job = is_of_job || variable.starts_with("SLURM_JOB_ID=");
      }
      if (is_here && is_of_job) left.push_back(name_of(pid) + " " + std::to_string(pid));
    }
    return left;
  }
  // Kills the slurmd of a node. False: there is none.
  bool kill_slurmd(const std::string& node) const {
    for (const pid_t pid : processes_with(daemons_->mark())) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
      std::string line;
      for (std::string word; std::getline(file, word, '\0');) line += word + " ";
      if (line == "slurmd -D -N " + node + " ") return ::kill(pid, SIGKILL) == 0;
    }
    return false;
  }
  bool is_swept() const {
    return eventually([this] { return processes_of_jobs().empty(); });
  }

  std::string logs() const {
    std::string text = daemons_->out() + daemons_->err();
    for (const char* const name : {"munge/out", "controller.out", "n1/out", "n2/out"}) {
      std::ifstream file(folder() + "/" + name);
      std::stringstream part;
      part << file.rdbuf();
      text += std::string("\n") + name + ":\n" + part.str();
    }
    return text;
  }

 private:
  TempDir folder_;
  std::unique_ptr<Process> daemons_;
};

// Tests that share one cluster. Without root they are skipped; with it, continuous integration
// (DLRUN_TEST_ALL is set) fails rather than skips.
class SlurmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    why_not_ = SlurmCluster::why_not();
    if (why_not_.empty() && !cluster_) cluster_ = std::make_unique<SlurmCluster>();
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (why_not_.empty()) return;
    if (::geteuid() == 0 && std::getenv("DLRUN_TEST_ALL") != nullptr) FAIL() << why_not_;
    GTEST_SKIP() << why_not_;
  }

  static const SlurmCluster& cluster() { return *cluster_; }

 private:
  inline static std::string why_not_;
  inline static std::unique_ptr<SlurmCluster> cluster_;
};

}  // namespace dl::tests
