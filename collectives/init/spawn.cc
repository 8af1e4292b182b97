// The first process starts `dlrun ... --report-fd FD -- PROGRAM ARGUMENTS` with
// DLRUN_SPAWN=CALL:FD. FD is a memfd that dlrun and the ranks inherit. Each rank appends "came
// RANK" when it comes to the call, and "result RANK LENGTH" with the result's bytes when its
// function has returned. If the job fails, dlrun appends "failed RANK EXIT-CODE" and its page. A
// memfd needs no reader while the ranks run, and no file has to be removed.
#include "collectives/init/spawn.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "collectives/init/launch.h"
#include "core/base/env.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"

namespace dl {
namespace {

namespace fs = std::filesystem;

// dlrun gives its ranks descriptors from 190 to 199, so the report must lie below or above these.
constexpr int kLeastReportFd = 200;
constexpr int kFirstFdOfRanks = 190;
constexpr std::string_view kCame = "came ";
constexpr std::string_view kResult = "result ";
constexpr std::string_view kFailed = "failed ";

using Function = std::function<std::string(int rank)>;

std::atomic<int> spawn_calls{0};
std::atomic<bool> is_inside_function{false};

// DLRUN_SPAWN: the number of the spawn() call, and the file in which this rank reports that it has
// come.
struct Summons {
  int call = 0;
  int report_fd = -1;
};

std::optional<Summons> find_summons() {
  const std::optional<std::string> text = env::get(env::Var::kSpawn);
  if (!text) return std::nullopt;
  const std::size_t colon = text->find(':');
  const auto call = read_number<int>(text->substr(0, colon));
  const auto fd =
      colon == std::string::npos ? std::nullopt : read_number<int>(text->substr(colon + 1));
  DL_CHECK(call && fd && *call >= 1 && *fd >= 0, kInvalidArgument,
           "{}={} is not CALL:DESCRIPTOR; spawn() sets it for its ranks; do not set it yourself",
           env::name_of(env::Var::kSpawn), *text);
  return Summons{*call, *fd};
}

void append(int fd, const std::string& line) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw_errno(errno, "spawn: write to the first process's report");
  }
}

// The type of the exception that is being handled.
std::string thrown_type() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return type == nullptr ? "an exception of another language" : demangled(type->name());
}

std::string in_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : printable(text)) {  // UTF-8, of control characters only these two
    if (c == '\n' || c == '\t') {
      quoted += c == '\n' ? "\\n" : "\\t";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// Writes the rank's error file: dlrun shows its message as the cause of the failure.
[[noreturn]] void fail_rank(const std::string& text) {
  if (const auto path = env::get(env::Var::kTorchErrorFile)) {
    std::ofstream(*path, std::ios::binary) << "{\"message\": " << in_json(text) << "}";
  }
  std::fflush(nullptr);
  ::_exit(1);  // exit() would tell the other ranks that this one leaves in order
}

[[noreturn]] void run_as_rank(const Function& function, const Summons& summons) {
  const int rank = static_cast<int>(env::require_int(env::Var::kRank));
  append(summons.report_fd, fmt::format("{}{}\n", kCame, rank));
  // Programs that the function starts are not ranks of this call.
  if (::fcntl(summons.report_fd, F_SETFD, FD_CLOEXEC) != 0) throw_errno(errno, "spawn: fcntl");
  env::unset(env::Var::kSpawn);
  is_inside_function = true;
  try {
    const std::string result = function(rank);
    append(summons.report_fd, fmt::format("{}{} {}\n{}\n", kResult, rank, result.size(), result));
  } catch (const std::exception& error) {
    const std::string_view text = error.what() == nullptr ? "" : error.what();
    const bool is_empty = text.find_first_not_of(" \t\r\n") == text.npos;
    fail_rank(is_empty ? thrown_type() + " with an empty text" : std::string(text));
  } catch (...) {
    fail_rank(thrown_type() + ", an exception that is no std::exception");
  }
  std::exit(EXIT_SUCCESS);
}

std::vector<std::string> own_command_line() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  DL_CHECK(!error && fs::exists(program), kNotFound,
           "spawn: the program's file {} is not there any more, so it cannot be started again",
           program.string());
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> line;
  for (std::string word; std::getline(file, word, '\0');) line.push_back(word);
  if (line.empty()) line.emplace_back();
  line.front() = program.string();
  return line;
}

std::string find_dlrun(const fs::path& program) {
  std::vector<std::string> files = candidates_in_path("dlrun");
  files.insert(files.begin(), program.parent_path() / "dlrun");
  for (const std::string& file : files) {
    if (why_not_executable(file) == 0) return file;
  }
  throw_error(ErrorKind::kNotFound,
              "spawn: there is no dlrun in {} or in PATH; put it beside the program or add its "
              "folder to PATH",
              program.parent_path().string());
}

// The arguments of execve() for dlrun, and the signal handlers to restore.
struct Start {
  std::vector<char*> argv;         // ends with a null pointer; so does environment
  std::vector<char*> environment;  // as execve() takes it
  int inherited_fd = -1;           // close-on-exec in this process
  struct sigaction at_interrupt = {};
  struct sigaction at_quit = {};
};

// Until exec it runs in this program's memory (vfork), so it may make system calls only. Its
// signals are blocked, because a handler of the program would run in that memory too.
[[noreturn]] void become(const Start& start, pid_t parent) {
  ::sigaction(SIGINT, &start.at_interrupt, nullptr);
  ::sigaction(SIGQUIT, &start.at_quit, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::fcntl(start.inherited_fd, F_SETFD, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
      ::getppid() == parent) {
    ::execve(start.argv[0], start.argv.data(), start.environment.data());
  }
  ::_exit(127);
}

pid_t start_child(const Start& start) {
  const pid_t parent = ::getpid();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(bugprone-unsafe-functions): posix_spawn has no prctl()
  if (pid == 0) become(start, parent);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// While this object lives, the process leaves SIGINT and SIGQUIT to dlrun.
class WithoutInterrupts {
 public:
  WithoutInterrupts() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &at_interrupt);
    ::sigaction(SIGQUIT, &ignore, &at_quit);
  }
  ~WithoutInterrupts() {
    ::sigaction(SIGINT, &at_interrupt, nullptr);
    ::sigaction(SIGQUIT, &at_quit, nullptr);
  }
  WithoutInterrupts(const WithoutInterrupts&) = delete;
  WithoutInterrupts& operator=(const WithoutInterrupts&) = delete;

  struct sigaction at_interrupt = {};
  struct sigaction at_quit = {};
};

// Returns how dlrun ended, as waitpid() gives it.
int run_dlrun(std::vector<std::string> line, const std::string& summons, int report_fd) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  entries.push_back(std::string(env::name_of(env::Var::kSpawn)) + "=" + summons);

  const WithoutInterrupts quiet;
  const pid_t pid = start_child({.argv = pointers_to(line),
                                 .environment = pointers_to(entries),
                                 .inherited_fd = report_fd,
                                 .at_interrupt = quiet.at_interrupt,
                                 .at_quit = quiet.at_quit});
  if (pid < 0) throw_errno(errno, "spawn: start dlrun");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw_errno(errno, "spawn: wait for dlrun");
  }
  return status;
}

struct Report {
  std::set<int> came;
  std::map<int, std::string> results;  // by rank
  std::optional<SpawnError> failure;
};

UniqueFd make_report() {
  UniqueFd made(::memfd_create("dlrun-spawn", MFD_CLOEXEC));
  if (!made) throw_errno(errno, "spawn: memfd_create");
  // O_APPEND keeps the lines of dlrun and the ranks apart.
  if (::fcntl(made.get(), F_SETFL, O_APPEND) != 0) throw_errno(errno, "spawn: fcntl");
  UniqueFd report(::fcntl(made.get(), F_DUPFD_CLOEXEC, kLeastReportFd));
  if (report) return report;
  // The limit of open files may lie below that number; dlrun raises its own.
  report.reset(::fcntl(made.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (report && report.get() < kFirstFdOfRanks) return report;
  throw_error(ErrorKind::kIo, "spawn: {}", system_error_text(EMFILE));
}

Report read_report(int fd) {
  std::ifstream file("/proc/self/fd/" + std::to_string(fd), std::ios::binary);
  Report report;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kCame)) {
      report.came.insert(read_number<int>(line.substr(kCame.size())).value_or(-1));
    }
    if (line.starts_with(kResult)) {
      std::istringstream numbers(line.substr(kResult.size()));
      int rank = -1;
      std::size_t length = 0;
      numbers >> rank >> length;
      std::string bytes(length, '\0');
      file.read(bytes.data(), static_cast<std::streamsize>(length));
      file.ignore();  // the line's end
      report.results[rank] = std::move(bytes);
    }
    if (!line.starts_with(kFailed)) continue;
    std::istringstream numbers(line.substr(kFailed.size()));
    int rank = -1;
    int exit_code = 1;
    numbers >> rank >> exit_code;
    std::string page(std::istreambuf_iterator<char>(file), {});
    if (page.ends_with('\n')) page.pop_back();
    report.failure.emplace(rank, exit_code, "spawn: " + page);
  }
  return report;
}

}  // namespace

bool is_spawned() {
  return is_inside_function || env::is_set(env::Var::kSpawn);
}

void spawn(const std::function<void(int rank)>& function, int nprocs) {
  const auto without_result = [&](int rank) {
    function(rank);
    return std::string();
  };
  spawn_for_results(function == nullptr ? Function() : without_result, nprocs);
}

std::vector<std::string> spawn_for_results(const Function& function, int nprocs) {
  DL_CHECK(function != nullptr, kInvalidArgument, "spawn: there is no function");
  DL_CHECK(nprocs >= 1, kInvalidArgument, "spawn: nprocs is {}, wanted at least 1", nprocs);
  DL_CHECK(!is_inside_function, kInvalidArgument,
           "spawn: called inside of a function that spawn runs; call it in main()");
  const int call = ++spawn_calls;
  if (const std::optional<Summons> summons = find_summons()) {
    if (call < summons->call) return {};  // an earlier call, which is done
    run_as_rank(function, *summons);
  }
  const collectives::Launch launch = collectives::find_launch({}, {});
  DL_CHECK(launch.world_size == 1, kInvalidArgument,
           "spawn: this process is rank {} of {} already, as {} says; start the program alone, or "
           "call the function with dl::rank()",
           launch.rank, launch.world_size, launch.told_by);

  const UniqueFd report = make_report();
  const std::vector<std::string> program = own_command_line();
  const std::string fd = std::to_string(report.get());
  std::vector<std::string> line = {find_dlrun(program.front()),
                                   "--standalone",
                                   "--nproc-per-node",
                                   std::to_string(nprocs),
                                   "--no-prefix",
                                   "--report-fd",
                                   fd,
                                   "--"};
  line.insert(line.end(), program.begin(), program.end());
  std::fflush(nullptr);  // so that this process's lines come before those of the ranks
  const int status = run_dlrun(std::move(line), std::to_string(call) + ":" + fd, report.get());
  const int exit_code = shell_exit_code(status);
  Report found = read_report(report.get());
  const bool is_fault_of_rank = found.failure && found.failure->rank() >= 0;
  for (const int signal : {SIGINT, SIGQUIT}) {
    if (!is_fault_of_rank && exit_code == 128 + signal) ::raise(signal);
  }
  if (found.failure) throw *found.failure;
  if (exit_code != 0) {
    throw SpawnError(-1, exit_code,
                     fmt::format("spawn: dlrun {}{}", how_it_ended(status),
                                 WIFEXITED(status) ? " and gave no reason here; its lines on "
                                                     "standard error do"
                                                   : ""));
  }
  for (int rank = 0; rank < nprocs; ++rank) {
    DL_CHECK(found.came.contains(rank), kMismatch,
             "spawn: rank {} ended without coming to this call, number {} of the program; main() "
             "must come to it in the ranks, too",
             rank, call);
  }
  std::vector<std::string> results;
  for (int rank = 0; rank < nprocs; ++rank) results.push_back(std::move(found.results[rank]));
  return results;
}

}  // namespace dl
