// A soak over the processes of dlrun: jobs of two ranks on one node, on two (two dlruns on this
// machine), or on two or three hosts by ssh (namespaces with an sshd; as root), whose ranks have
// daemons. One process of the job, or two in sequence, are killed with SIGKILL at random moments:
// dlrun, its supervisor, its warden, dlrun-rendezvous, an ssh, the dlrun of a host, a rank, or a
// process that a rank has started.
//
//   kill_soak SECONDS [SEED [KILLS]]      ends after SECONDS, or earlier after KILLS
//
// Every dlrun of the job must end within kHang with another exit code than 0, and leave no process.
// One that is not killed itself must say who was. The death of a process that a rank has started
// changes nothing. Prints a score, and ends with 1 if it is not clean.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/system/process/process_stat.h"
#include "core/base/system/unique_fd.h"
#include "tests/chaos/soak_arguments.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/ssh_hosts.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kHang{60};
constexpr int kRanks = 2;  // of each node

// Each rank has a child in a session of its own, daemons that were orphaned twice, and children
// that ignore SIGTERM.
constexpr const char* kFamily =
    "setsid sleep 300 & (setsid sh -c 'sleep 300 & sleep 300' &); "
    "(trap '' TERM HUP INT; sleep 300 & sleep 300) & echo ready $$; wait";

enum Role : int {
  kDlrun,
  kSupervisor,
  kWarden,
  kRendezvous,
  kRank,
  kDescendant,
  kSsh,
  kAgent,
  kRoles
};
constexpr std::array<const char*, kRoles> kNames = {
    "dlrun",  "the supervisor", "the warden", "dlrun-rendezvous",
    "a rank", "a rank's child", "an ssh",     "the dlrun of a host"};

struct Score {
  std::array<int, kRoles> kills{};
  int jobs = 0, hangs = 0, left = 0, unsaid = 0, wrong_codes = 0, never_began = 0, disturbed = 0;
  int all_kills() const {
    int sum = 0;
    for (const int n : kills) sum += n;
    return sum;
  }
  bool is_clean() const {
    return all_kills() > 0 && hangs + left + unsaid + wrong_codes + never_began + disturbed == 0;
  }
};

// A process that is killed later: by then its number may be another's.
struct Victim {
  Role role{};
  std::size_t node = 0;
  UniqueFd handle;
  void kill() const { ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0); }
};

pid_t parent_of(pid_t pid) {
  return read_stat("/proc/" + std::to_string(pid)).parent;
}

struct Job {
  std::vector<std::unique_ptr<tests::Process>> nodes;  // the dlruns that a person started
  std::size_t rank_count = kRanks;                     // of each
  bool by_ssh = false;

  std::vector<pid_t> with_role(std::size_t node, Role role) const {
    const tests::Process& dlrun = *nodes[node];
    std::vector<pid_t> ranks;
    for (std::string rest = dlrun.out(); tests::number_after("ready ", rest) > 0;) {
      ranks.push_back(tests::number_after("ready ", rest));
      rest.erase(0, rest.find("ready ") + 6);
    }
    if (role == kDlrun) return {dlrun.pid()};
    if (role == kRank) return ranks;
    std::vector<pid_t> found;
    for (const pid_t pid : tests::processes_with(dlrun.mark())) {
      const std::string name = tests::name_of(pid);
      const Role its = name == "rank-supervisor"               ? kSupervisor
                       : name == "rank-warden"                 ? kWarden
                       : name.starts_with("dlrun-rend")        ? kRendezvous
                       : name == "sleep"                       ? kDescendant
                       : name == "ssh"                         ? kSsh
                       : name == "dlrun" && pid != dlrun.pid() ? kAgent
                                                               : kRoles;
      // That of a job by ssh has no ranks on this machine.
      const bool is_idle = by_ssh && its == kSupervisor && parent_of(parent_of(pid)) == dlrun.pid();
      if (its == role && !is_idle) found.push_back(pid);
    }
    return found;
  }
};

Job start(std::size_t nodes, const std::string& home) {
  Job job;
  const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
  for (std::size_t node = 0; node < nodes; ++node) {
    std::vector<std::string> line = {tests::program("dlrun"), "--nproc-per-node",
                                     std::to_string(kRanks), "--grace", "1"};
    if (nodes > 1) {
      line.insert(line.end(), {"--nnodes", std::to_string(nodes), "--node-rank",
                               std::to_string(node), "--rdzv-endpoint", endpoint});
    }
    line.insert(line.end(), {"sh", "-c", kFamily});
    job.nodes.push_back(std::make_unique<tests::Process>(
        line, tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home}}));
  }
  return job;
}

// Two or three hosts.
Job start_by_ssh(const tests::SshHosts& hosts, int count) {
  Job job;
  job.rank_count = static_cast<std::size_t>(count * kRanks);
  job.by_ssh = true;
  job.nodes.push_back(std::make_unique<tests::Process>(hosts.from_front(
      {tests::program("dlrun"), "--ssh", hosts.ssh(), "--hosts", count == 2 ? "a,b" : "a,b,c",
       "--nproc-per-node", std::to_string(kRanks), "--grace", "1", "sh", "-c", kFamily})));
  return job;
}

bool is_ready(const Job& job) {
  return std::ranges::all_of(job.nodes, [&](const auto& dlrun) {
    return tests::eventually(kHang, [&] {
      const std::string out = dlrun->out();
      std::size_t ranks = 0;
      for (std::size_t at = out.find("ready "); at != std::string::npos;
           at = out.find("ready ", at + 1)) {
        ranks += out.find('\n', at) != std::string::npos ? 1 : 0;
      }
      return ranks == job.rank_count;
    });
  });
}

// What a dlrun of the victim's node says of its death.
bool says(const std::string& err, const Victim& victim) {
  switch (victim.role) {
    case kSsh:
    case kAgent:
      return err.find("was lost: ") != std::string::npos;
    case kSupervisor:
      return err.find("the supervisor was killed by signal 9") != std::string::npos ||
             err.find("the supervisor is gone too") != std::string::npos;
    case kWarden:
      return err.find("the warden was killed by signal 9") != std::string::npos ||
             err.find("the warden of the processes that reach the hosts is gone") !=
                 std::string::npos;
    case kRendezvous:
      return err.find("dlrun-rendezvous, which the ranks meet through, was killed by signal 9") !=
             std::string::npos;
    case kRank:
      return err.find("dlrun: rank ") != std::string::npos &&
             err.find("was killed by signal 9") != std::string::npos;
    default:
      return true;
  }
}

class Soak {
 public:
  Soak(std::uint64_t seed, Clock::time_point end, int kills)
      : seed_(seed), end_(end), kills_(kills) {
    if (const std::string why = tests::SshHosts::why_not(); why.empty()) {
      hosts_ = std::make_unique<tests::SshHosts>(3);
    } else {
      std::printf("kill_soak: no jobs by ssh: %s\n", why.c_str());
    }
  }

  Score run() {
    while (Clock::now() < end_ && score_.all_kills() < kills_)
      play(seed_ + static_cast<std::uint64_t>(score_.jobs));
    return score_;
  }

 private:
  void play(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    ++score_.jobs;
    const std::uint64_t kind = seed % (hosts_ ? 4 : 2);
    Job job =
        kind < 2 ? start(1 + kind, home_.path()) : start_by_ssh(*hosts_, static_cast<int>(kind));
    if (!is_ready(job)) {
      ++score_.never_began;
      std::printf("seed %llu: the ranks did not begin: %s\n", static_cast<unsigned long long>(seed),
                  job.nodes[0]->err().c_str());
      return;
    }
    std::vector<Victim> victims = draw(job, random);
    for (const Victim& victim : victims) {
      if (&victim != victims.data()) ::usleep(static_cast<useconds_t>(random() % 20'000));
      victim.kill();
      ++score_.kills[static_cast<std::size_t>(victim.role)];
    }
    if (std::ranges::all_of(victims, [](const Victim& v) { return v.role == kDescendant; })) {
      // This death does not end the job, so the soak does.
      for (const auto& dlrun : job.nodes) {
        if (dlrun->has_ended()) fail(score_.disturbed, seed, victims, "a dlrun has ended", *dlrun);
      }
      victims.clear();
      victims.push_back(victim_of(0, kDlrun, job.nodes[0]->pid()));
      victims[0].kill();
      ++score_.kills[kDlrun];
    }
    judge(job, victims, seed);
  }

  static Victim victim_of(std::size_t node, Role role, pid_t pid) {
    return {role, node, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
  }

  static std::vector<Victim> draw(const Job& job, std::mt19937_64& random) {
    std::vector<Victim> victims;
    const std::size_t wanted = 1 + random() % 2;
    std::vector<pid_t> chosen;
    while (victims.size() < wanted) {
      const std::size_t node = random() % job.nodes.size();
      const auto role = static_cast<Role>(random() % kRoles);
      const std::vector<pid_t> pids = job.with_role(node, role);
      if (pids.empty()) continue;  // one node has no dlrun-rendezvous, and no ssh
      const pid_t pid = pids[random() % pids.size()];
      if (std::ranges::find(chosen, pid) != chosen.end()) continue;
      chosen.push_back(pid);
      victims.push_back(victim_of(node, role, pid));
    }
    return victims;
  }

  void judge(Job& job, const std::vector<Victim>& victims, std::uint64_t seed) {
    for (std::size_t node = 0; node < job.nodes.size(); ++node) {
      tests::Process& dlrun = *job.nodes[node];
      const bool ended = tests::eventually(kHang, [&] { return dlrun.has_ended(); });
      if (!ended) fail(score_.hangs, seed, victims, "a dlrun does not end", dlrun);
      if (!tests::eventually(kHang, [&] { return tests::processes_with(dlrun.mark()).empty(); })) {
        fail(score_.left, seed, victims, "processes are left", dlrun);
      }
      if (!ended) continue;
      if (dlrun.wait() == 0) fail(score_.wrong_codes, seed, victims, "exit code 0", dlrun);
      if (std::ranges::any_of(victims, [&](const Victim& victim) {
            return victim.node == node && victim.role == kDlrun;
          })) {
        continue;
      }
      const std::string err = dlrun.err();
      const bool said = std::ranges::any_of(victims, [&](const Victim& victim) {
        if (victim.role == kDescendant) return false;
        // Another host may notice first.
        if (job.by_ssh && err.find("lost") != std::string::npos) return true;
        if (victim.node == node) return says(err, victim);
        return err.find("lost") != std::string::npos ||
               err.find("killed by signal 9") != std::string::npos;
      });
      if (!said) fail(score_.unsaid, seed, victims, "the cause is not said", dlrun);
    }
  }

  static void fail(int& count, std::uint64_t seed, const std::vector<Victim>& victims,
                   const char* what, const tests::Process& dlrun) {
    ++count;
    std::string killed;
    for (const Victim& victim : victims) {
      killed += killed.empty() ? "" : ", then ";
      killed += kNames[static_cast<std::size_t>(victim.role)];
      killed += " of node " + std::to_string(victim.node);
    }
    std::printf("seed %llu, killed %s: %s; dlrun says: %s\n", static_cast<unsigned long long>(seed),
                killed.c_str(), what, dlrun.err().c_str());
  }

  std::uint64_t seed_;
  Clock::time_point end_;
  int kills_;
  tests::TempDir home_;
  std::unique_ptr<tests::SshHosts> hosts_;  // null: none can be made here
  Score score_;
};

int soak_of_kills(int seconds, std::uint64_t seed, int kills) {
  const auto begin = Clock::now();
  const Score score = Soak(seed, begin + std::chrono::seconds(seconds), kills).run();
  std::string by_role;
  for (std::size_t role = 0; role < kRoles; ++role) {
    by_role += (role == 0 ? "" : ", ") + std::to_string(score.kills[role]) + " " + kNames[role];
  }
  std::printf(
      "kill_soak: seed %llu, %d kills (%s) in %d jobs and %.0f s; %d hangs, %d jobs that left "
      "processes, %d causes not said, %d exit codes 0, %d disturbed, %d that did not begin\n",
      static_cast<unsigned long long>(seed), score.all_kills(), by_role.c_str(), score.jobs,
      std::chrono::duration<double>(Clock::now() - begin).count(), score.hangs, score.left,
      score.unsaid, score.wrong_codes, score.disturbed, score.never_began);
  return score.is_clean() ? 0 : 1;
}

}  // namespace
}  // namespace dl

int main(int argc, char** argv) {
  const dl::tests::SoakArguments given(argc, argv, "kill_soak SECONDS [SEED [KILLS]]");
  const int seconds = given.seconds();
  const std::uint64_t seed = given.number_or(2, 1);
  const auto kills =
      static_cast<int>(std::min<std::uint64_t>(given.number_or(3, 1'000'000), 1'000'000));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  ::setenv("DLRUN_TEST_BIN", folder.c_str(), 0);
  return dl::soak_of_kills(seconds, seed, kills);
}
