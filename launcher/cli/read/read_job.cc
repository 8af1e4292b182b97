// Readers of the options for the program, its environment, and the end of the job.
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "launcher/cli/table/readers.h"
#include "launcher/process/signal_meaning.h"

namespace dl::launcher::read {
namespace {

// dlrun sets these for each rank, whatever its own environment has.
constexpr env::Var kOwnVariables[] = {env::Var::kRank,
                                      env::Var::kWorldSize,
                                      env::Var::kLocalRank,
                                      env::Var::kLocalWorldSize,
                                      env::Var::kGroupRank,
                                      env::Var::kGroupWorldSize,
                                      env::Var::kRoleRank,
                                      env::Var::kRoleWorldSize,
                                      env::Var::kRoleName,
                                      env::Var::kTorchRestartCount,
                                      env::Var::kTorchMaxRestarts,
                                      env::Var::kTorchRunId,
                                      env::Var::kTorchUseAgentStore,
                                      env::Var::kTorchErrorFile,
                                      env::Var::kJobId,
                                      env::Var::kGeneration,
                                      env::Var::kStore,
                                      env::Var::kKeyFd,
                                      env::Var::kLifelineFd,
                                      env::Var::kRecorderFd,
                                      env::Var::kGpus,
                                      env::Var::kOmpiRank,
                                      env::Var::kOmpiSize,
                                      env::Var::kOmpiLocalRank,
                                      env::Var::kOmpiLocalSize,
                                      env::Var::kOmpiApp,
                                      env::Var::kOmpiApps,
                                      env::Var::kOmpiAppSizes,
                                      env::Var::kOmpiFirstRanks};

// dlrun sets these for each rank unless the user does.
constexpr env::Var kDefaultVariables[] = {env::Var::kMasterAddr,       env::Var::kMasterPort,
                                          env::Var::kOmpNumThreads,    env::Var::kTorchNcclErrors,
                                          env::Var::kPythonUnbuffered, env::Var::kNodeId,
                                          env::Var::kDlrunFolder,      env::Var::kNetwork};

template <std::size_t N>
bool is_among(std::string_view name, const env::Var (&variables)[N]) {
  return std::any_of(std::begin(variables), std::end(variables),
                     [name](env::Var variable) { return name == env::name_of(variable); });
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

// The signals of a list as "SIGTERM,USR1".
std::vector<int> signals_in(const Typed& typed) {
  std::vector<int> signals;
  for (const std::string& word : split(typed.value, ',')) {
    const std::string_view name = trimmed(word);
    signals.push_back(signal_number(name));
    DL_CHECK(signals.back() != 0, kInvalidArgument,
             "{} is `{}`: there is no signal `{}`; wanted names as SIGTERM,SIGUSR1", typed.name(),
             typed.value, name);
  }
  return signals;
}

bool has(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

bool can_be_handled(int signal) {
  return signal != SIGKILL && signal != SIGSTOP && signal != SIGCHLD && signal != SIGCONT &&
         signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU;
}

// Why dlrun cannot pass a signal on and go on; empty: it can.
std::string why_not_forwarded(const Options& options, int signal) {
  if (has(options.end.signals_to_handle, signal)) return "--signals-to-handle names it too";
  if (signal == SIGUSR2 && options.end.preempt_on_usr2)
    return "--preempt-usr2 takes it as a request";
  if (is_of_a_person(signal)) {
    return fmt::format("it ends the job; --signals-to-handle {} sends it to the ranks as it is",
                       signal_name(signal));
  }
  // A fault of dlrun itself, or the end of the reader of its output.
  for (const int own : {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPIPE, SIGXFSZ}) {
    if (signal == own) return "it may be about dlrun itself";
  }
  const SignalMeaning meaning = meaning_of(signal);
  const bool is_caught = meaning != SignalMeaning::kSystem && meaning != SignalMeaning::kSuspend;
  return is_caught ? "" : "dlrun does not catch it";
}

// Checks an -x that counts for the whole job: the first program's does.
void check_same(const Options& options, std::string_view name, const std::string& value,
                const std::string& of_job) {
  DL_CHECK(options.job.apps.size() == 1 || value == of_job, kInvalidArgument,
           "-x {0}={1} is given to one program, but all programs of a job have the same {0}, here "
           "{2}; give it with the first program",
           name, value, of_job.empty() ? "the one that dlrun chooses" : of_job);
}

}  // namespace

void nproc_per_node(Options& options, const Typed& typed) {
  DL_CHECK(typed.value != "xpu", kInvalidArgument,
           "{} xpu is not supported; give a number, or cpu for one rank a core", typed.name());
  if (typed.value != "auto" && typed.value != "cpu" && typed.value != "gpu") {
    whole_number(typed.name(), typed.value, 1, kMost, ", or gpu, cpu or auto");
  }
  options.job.nproc_per_node = typed.value;
}

void export_variable(Options& options, const Typed& typed) {
  const std::size_t equals = typed.value.find('=');
  Exported variable{.name = typed.value.substr(0, equals), .value = std::nullopt};
  if (equals != std::string::npos) variable.value = typed.value.substr(equals + 1);
  DL_CHECK(is_variable_name(variable.name), kInvalidArgument,
           "{} is `{}`, wanted VARIABLE or VARIABLE=VALUE; give each variable an -x of its own",
           typed.name(), typed.value);
  const bool is_own = is_among(variable.name, kOwnVariables);
  DL_CHECK(!is_own || !variable.value, kInvalidArgument,
           "{} {}: dlrun gives each rank a {} of its own; leave it out", typed.name(), typed.value,
           variable.name);
  // mpirun needs to be told what dlrun does by itself.
  const bool is_default = is_among(variable.name, kDefaultVariables);
  if (is_own || (is_default && !variable.value && !env::exists(variable.name))) return;
  // Scripts pass these two variables to mpirun's ranks, and mean these two options.
  const bool is_address = variable.name == env::name_of(env::Var::kMasterAddr);
  const bool is_port = variable.name == env::name_of(env::Var::kMasterPort);
  if (is_address || is_port) {
    const std::optional<std::string> value =
        variable.value ? variable.value
                       : env::get(is_address ? env::Var::kMasterAddr : env::Var::kMasterPort);
    if (value && is_address) {
      check_same(options, variable.name, *value, options.meet.master_addr);
      options.meet.master_addr = *value;
    }
    if (value && is_port) {
      const int port = whole_number("-x MASTER_PORT", *value, 1, 65535);
      const std::optional<int> of_job = options.meet.master_port;
      check_same(options, variable.name, std::to_string(port),
                 of_job ? std::to_string(*of_job) : "");
      options.meet.master_port = port;
    }
    if (value) return;
  }
  std::vector<Exported>& exports = options.job.apps.back().exports;
  std::erase_if(exports, [&](const Exported& e) { return e.name == variable.name; });
  exports.push_back(std::move(variable));
}

void preempt_before(Options& options, const Typed& typed) {
  options.end.preempt_before = seconds(typed.name(), typed.value);
  DL_CHECK(env::get(env::Var::kSlurmJobId).has_value(), kInvalidArgument,
           "--preempt-before counts from the end of a SLURM allocation, and SLURM_JOB_ID is not "
           "set; --preempt takes SIGTERM as the request");
}

void preempt_wait(Options& options, const Typed& typed) {
  options.end.preempt_wait = seconds(typed.name(), typed.value);
  DL_CHECK(options.end.may_be_preempted(), kInvalidArgument,
           "--preempt-wait needs --preempt, --preempt-usr2 or --preempt-before");
}

void timeout(Options& options, const Typed& typed) {
  options.end.timeout = seconds(typed.name(), typed.value);
  DL_CHECK(options.end.timeout->count() > 0, kInvalidArgument,
           "{} is `{}`, wanted more than 0 seconds; leave it out for no limit", typed.name(),
           typed.value);
}

void signals_to_handle(Options& options, const Typed& typed) {
  options.end.signals_to_handle = signals_in(typed);
  for (const int signal : options.end.signals_to_handle) {
    DL_CHECK(can_be_handled(signal), kInvalidArgument,
             "{} is `{}`: {} cannot end a job in order; leave it out", typed.name(), typed.value,
             signal_name(signal));
  }
}

void forward_signals(Options& options, const Typed& typed) {
  options.end.forwarded_signals = signals_in(typed);
  for (const int signal : options.end.forwarded_signals) {
    const std::string why = why_not_forwarded(options, signal);
    DL_CHECK(why.empty(), kInvalidArgument, "{} is `{}`: {} cannot be passed on: {}", typed.name(),
             typed.value, signal_name(signal), why);
  }
}

void start_method(Options&, const Typed& typed) {
  DL_CHECK(typed.value == "spawn" || typed.value == "fork" || typed.value == "forkserver",
           kInvalidArgument, "{} is `{}`, wanted spawn, fork or forkserver; or leave it out",
           typed.name(), typed.value);
}

void event_log_handler(Options&, const Typed& typed) {
  DL_CHECK(typed.value == "null", kInvalidArgument,
           "{} is `{}`: dlrun has no such handler of events; leave it out", typed.name(),
           typed.value);
}

}  // namespace dl::launcher::read
