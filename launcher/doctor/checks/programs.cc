#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/text/name_list.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/program.h"
#include "launcher/slurm/slurm_conf.h"

namespace dl::launcher::doctor {
namespace {

// Installed beside dlrun.
constexpr std::array kHelpers = {"dlrun-rendezvous", "dlbench"};
constexpr std::array kMungeSockets = {"/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2"};

std::string path_of(const std::string& program) {
  const Program found = find_program(program);
  return found.exit_code == 0 ? found.path : "";
}

bool is_beside_dlrun(const char* program) {
  return ::access((own_file().parent_path() / program).c_str(), X_OK) == 0;
}

// A helper that not every host needs.
Check check_helper(const std::string& name, const ProgramFacts::Helper& helper,
                   const std::string& why_not_needed, const std::string& why,
                   const std::string& mend) {
  const bool is_missing = helper.is_needed && !helper.is_there;
  return judged(name,
                helper.is_there ? "it is beside dlrun"
                : is_missing    ? "not found beside dlrun"
                                : "not needed: " + why_not_needed,
                {{is_missing, Verdict::kWarn, why, mend}});
}

Check check_ptrace(const std::optional<std::int64_t>& scope) {
  const std::string name = "ptrace scope";
  if (!scope) return {.name = name, .found = "no restriction"};
  constexpr std::array kMeanings = {"any process of the user", "descendants only", "root only",
                                    "nobody"};
  const auto at = static_cast<std::size_t>(*scope);
  return judged(
      name, fmt::format("{}: {}", *scope, at < kMeanings.size() ? kMeanings[at] : "?"),
      {{*scope > 0, Verdict::kWarn,
        "Open MPI and MPICH copy through another buffer, and py-spy or gdb cannot look at a rank "
        "that hangs (dlrun needs no such right)",
        *scope > 2 ? "a restart of the host, with kernel.yama.ptrace_scope=0"
                   : "sudo sysctl kernel.yama.ptrace_scope=0"}});
}

}  // namespace

ProgramFacts read_programs(const std::string& root) {
  ProgramFacts facts{.ssh = path_of("ssh"),
                     .python = path_of(env::get(env::Var::kPythonExec).value_or("python3")),
                     .missing = {},
                     .packages = read_package_manager(root),
                     .has_slurm = !path_of("srun").empty(),
                     .ptrace_scope = number_in(root + "/proc/sys/kernel/yama/ptrace_scope")};
  for (const char* const helper : kHelpers) {
    if (!is_beside_dlrun(helper)) facts.missing.emplace_back(helper);
  }
  facts.slurm_helper.is_there = is_beside_dlrun("dlrun-srun");
  facts.slurm_helper.is_needed = facts.has_slurm;
  facts.pmix_helper.is_there = is_beside_dlrun("dlrun-pmix");
  facts.pmix_helper.is_needed = !path_of("ompi_info").empty();
  const auto is_there = [&root](const std::string& socket) {
    return ::access((root + socket).c_str(), F_OK) == 0;
  };
  const std::string named = munge_socket_in(read_slurm_conf());
  facts.has_munge_socket =
      named.empty() ? std::ranges::any_of(kMungeSockets, is_there) : is_there(named);
  return facts;
}

Checks check_programs(const ProgramFacts& facts) {
  Checks checks;
  checks.push_back(
      judged("dlrun's helpers",
             facts.missing.empty() ? "all are beside dlrun"
                                   : detail::name_list(facts.missing) + " not found beside dlrun",
             {{!facts.missing.empty(), Verdict::kWrong,
               "without dlrun-rendezvous nodes do not meet, and dlbench measures the collectives",
               "install dlrun anew: all of its programs stand in one folder"}}));
  checks.push_back(check_helper("dlrun-srun", facts.slurm_helper, "no srun here",
                                "it starts jobs on the nodes of SLURM's allocations",
                                "install dlrun anew: all of its programs stand in one folder"));
  checks.push_back(check_helper("dlrun-pmix", facts.pmix_helper, "no Open MPI here",
                                "programs that are linked to Open MPI get their ranks by it",
                                "install a dlrun that was built with libpmix"));
  checks.push_back(judged(
      "ssh", facts.ssh.empty() ? "not found" : facts.ssh,
      {{facts.ssh.empty(), Verdict::kWarn, "--hosts starts ranks by ssh, or by what --ssh names",
        install(facts.packages, {"openssh-client", "openssh-clients", "openssh-clients"})}}));
  checks.push_back(
      judged("Python", facts.python.empty() ? "not found" : facts.python,
             {{facts.python.empty(), Verdict::kWarn,
               "programs that end with .py run with python3, or with what PYTHON_EXEC names",
               install(facts.packages, {"python3", "python3", "python3"})}}));
  const std::string munge = facts.has_munge_socket ? "munged has its socket"
                            : facts.has_slurm      ? "no socket"
                                                   : "not needed: no srun here";
  checks.push_back(judged(
      "MUNGE", munge,
      {{facts.has_slurm && !facts.has_munge_socket, Verdict::kWarn,
        "under SLURM, nodes give each other the job's key by it, unless you give one in --key-file",
        "sudo systemctl enable --now munge"}}));
  checks.push_back(check_ptrace(facts.ptrace_scope));
  return checks;
}

}  // namespace dl::launcher::doctor
