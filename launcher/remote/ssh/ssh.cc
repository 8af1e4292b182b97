#include "launcher/remote/ssh/ssh.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "launcher/process/start/program.h"

namespace dl::launcher::remote {
namespace {

constexpr int kSshFailed = 255;

// Quotes a word for the host's login shell: sh, csh and fish read it alike.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

std::string quoted_if_needed(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
  });
  return is_plain ? word : quoted(word);
}

bool needs_no_ssh(const std::string& host) {
  char name[256] = {};
  if (host == "localhost") return true;
  return ::gethostname(name, sizeof name - 1) == 0 && host == name;
}

// The last line that is not blank, without its end.
std::string_view last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const std::size_t begin = text.rfind('\n');
  return begin == std::string_view::npos ? text : text.substr(begin + 1);
}

// ssh's own messages, which it does not translate.
struct SshFailure {
  std::string_view word;
  std::string_view text;  // {0}: the host
};
constexpr std::array kSshFailures = {
    SshFailure{"Host key verification failed",
               "host {0}: ssh does not know the host's key, or knows another one; run `ssh {0}` "
               "once by hand"},
    SshFailure{"Permission denied",
               "host {0}: ssh cannot log in without a password; give it a key, e.g. with "
               "`ssh-copy-id {0}`"},
    SshFailure{"Could not resolve hostname", "host {0}: there is no host of this name"},
    SshFailure{"timed out", "host {0} does not answer within 5 s"},
};
static_assert(kConnectSeconds == 5);

// What shells and the dynamic linker say of a program that is there.
constexpr std::array kMissingParts = {std::string_view("loading shared libraries"),
                                      std::string_view("required file not found")};

std::string ssh_failure(const std::string& host, std::string_view said) {
  for (const SshFailure& failure : kSshFailures) {
    if (said.find(failure.word) != std::string_view::npos) {
      return fmt::format("{} (ssh: {})", fmt::format(fmt::runtime(failure.text), host),
                         last_line(said));
    }
  }
  if (last_line(said).empty()) return fmt::format("host {}: ssh failed without a word", host);
  return fmt::format("host {}: ssh cannot connect: {}", host, last_line(said));
}

}  // namespace

AgentCommand agent_command(const std::vector<std::string>& ssh, const std::string& host,
                           const std::string& dlrun) {
  return command_on(ssh, host, dlrun, {kAgentWord});
}

AgentCommand command_on(const std::vector<std::string>& ssh, const std::string& host,
                        const std::string& dlrun, const std::vector<std::string>& words) {
  AgentCommand command;
  if (needs_no_ssh(host)) {
    command.path = dlrun;
    command.argv = {dlrun};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.by_ssh = false;
    return command;
  }
  const Program program = find_program(ssh.front());
  DL_CHECK(program.exit_code == 0, kInvalidArgument, "--ssh: {}", program.error);
  command.path = program.path;
  command.argv = ssh;
  for (const std::string& option : std::initializer_list<std::string>{
           "BatchMode=yes", fmt::format("ConnectTimeout={}", kConnectSeconds),
           fmt::format("ServerAliveInterval={}", kSilenceSeconds / 5), "ServerAliveCountMax=5",
           // ssh uses a connection that the user keeps open, and does not keep this one for later.
           "ControlMaster=no", "ClearAllForwardings=yes", "RemoteCommand=none"}) {
    command.argv.insert(command.argv.end(), {"-o", option});
  }
  std::string line = "exec " + quoted(dlrun);
  for (const std::string& word : words) line += " " + quoted_if_needed(word);
  command.argv.insert(command.argv.end(), {"-T", "-x", "--", host, line});
  return command;
}

std::string why_not_started(const std::string& host, const AgentCommand& command,
                            const LoginEnd& end, const std::string& dlrun) {
  const int code = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1;
  if (command.by_ssh && code == kSshFailed) return ssh_failure(host, end.said);
  const std::string_view words = last_line(end.said);
  // The login's own shell, or a program that it starts, may end with the same codes.
  const bool is_about_dlrun = end.said.find(dlrun) != std::string_view::npos;
  if (code == kExitNotFound && is_about_dlrun) {
    for (const std::string_view word : kMissingParts) {
      if (end.said.find(word) == std::string_view::npos) continue;
      return fmt::format("host {}: {} cannot be started: {}", host, dlrun, words);
    }
    return fmt::format("host {} has no dlrun at {}; dlrun must be at the same path on all hosts",
                       host, dlrun);
  }
  if (code == kExitNotExecutable && is_about_dlrun) {
    return fmt::format("host {}: {} cannot be executed: {}", host, dlrun, words);
  }
  if (code == kExitUsage && words.starts_with("dlrun: ")) {
    return fmt::format(
        "host {} has another version of dlrun at {}, which cannot be started by "
        "this one: {}",
        host, dlrun, words);
  }
  std::string text = fmt::format("host {}: {} {} before its dlrun answered", host,
                                 command.by_ssh ? "ssh" : "dlrun", how_it_ended(end.status));
  if (!words.empty()) text += fmt::format(": {}", words);
  if (const std::string_view wrote = last_line(end.noise); !wrote.empty()) {
    text +=
        fmt::format("{} on its standard output: {}", words.empty() ? "; it said" : "; and", wrote);
  }
  return text;
}

}  // namespace dl::launcher::remote
