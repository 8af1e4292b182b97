// dlrun-rendezvous: the rendezvous of a job, a separate program so that dlrun does not link gRPC.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/sanitizers.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/base/version.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/program/bridge/bridge.h"
#include "rendezvous/service/rendezvous_service.h"

namespace {

using namespace dl;
using namespace dl::rendezvous;

// Time for the nodes to receive the last message before the service ends.
constexpr std::chrono::seconds kFarewell{2};

struct Arguments {
  std::string job;
  std::vector<std::string> endpoints;
  int fd = -1;
  int listen_fd = -1;
  int lifeline_fd = 0;
  int timeout = 600;
  int dead_after = 10;
  int agent_timeout = 600;
  bool moves = false;
};

// gRPC has many threads, most of them idle. With the usual stack and heap for each, a service would
// need 700 MB of address space (ulimit -v).
void take_little_memory() {
  constexpr std::size_t kStack = std::size_t{1} << 20;
  ::mallopt(M_ARENA_MAX, 2);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

// Prepared in advance, because it is needed when there is no memory left.
std::array<char, 200> out_of_memory_sentence{};

// A service without memory cannot answer. So it ends, and dlrun then ends the job.
[[noreturn]] void end_without_memory() {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, out_of_memory_sentence.data(),
                                                   std::strlen(out_of_memory_sentence.data()));
  ::_exit(1);
}

void end_when_out_of_memory() {
  const std::string text = fmt::format("dlrun-rendezvous: {}\n", out_of_memory_text());
  text.copy(out_of_memory_sentence.data(), out_of_memory_sentence.size() - 1);
  std::set_new_handler(end_without_memory);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// If the system refuses gRPC a thread, gRPC continues and never does that thread's work: a request
// of a rank would wait for ever. So end the process. Only gRPC passes attributes; std::thread
// passes none, and throws. Not with sanitizers, which replace pthread_create themselves.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int error = create(thread, attributes, start, argument);
  if (error != 0 && attributes != nullptr) {
    std::fprintf(stderr, "dlrun-rendezvous: gRPC cannot start a thread that it needs: %s\n",
                 spawn_error_text(error).c_str());
    ::_exit(1);
  }
  return error;
}
#endif

// The terminal and SLURM send signals to every process of the job at once, and dlrun handles them.
// This process ends when its input or its lifeline closes.
void leave_signals_to_dlrun() {
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2}) {
    ::signal(number, SIG_IGN);
  }
}

CLI::Validator whole_seconds() {
  return {whole_number(1, 1'000'000'000), "POSITIVE"};
}

// "generation 3": the ranks of this generation are about to start.
void obey(RendezvousService& service, std::string_view line) {
  constexpr std::string_view kGeneration = "generation ";
  if (!line.starts_with(kGeneration)) return;
  line.remove_prefix(kGeneration.size());
  const auto number = read_number<std::uint64_t>(line);
  if (number) service.begin_generation(*number);
}

int serve(const Arguments& arguments) {
  RendezvousService service(Listener::from_fd(UniqueFd(arguments.fd)),
                            JobKey::require_from_environment(), arguments.job,
                            {.dead_after = std::chrono::seconds(arguments.dead_after)});
  std::string lines;
  std::array<char, 256> bytes;
  for (;;) {
    const ssize_t n = ::read(arguments.lifeline_fd, bytes.data(), bytes.size());
    if (n == 0) break;
    if (n < 0 && errno != EINTR) throw_errno(errno, "read the lifeline");
    if (n > 0) lines.append(bytes.data(), static_cast<std::size_t>(n));
    for (std::size_t end; (end = lines.find('\n')) != std::string::npos;) {
      obey(service, std::string_view(lines).substr(0, end));
      lines.erase(0, end + 1);
    }
  }
  service.shutdown(Deadline::after(kFarewell));
  return 0;
}

int join(const Arguments& arguments) {
  const JobKey key = JobKey::require_from_environment();
  std::optional<RendezvousService> service;
  if (arguments.listen_fd >= 0) {
    service.emplace(
        Listener::from_fd(UniqueFd(arguments.listen_fd)), key, arguments.job,
        RendezvousServiceOptions{.dead_after = std::chrono::seconds(arguments.dead_after),
                                 .moves = arguments.moves});
  }
  int code = 0;
  {
    std::vector<Endpoint> endpoints;
    for (const std::string& text : arguments.endpoints) endpoints.push_back(Endpoint::parse(text));
    Bridge bridge({.endpoint = endpoints.front(),
                   .other_endpoints = {endpoints.begin() + 1, endpoints.end()},
                   .job = arguments.job,
                   .key = key,
                   .timeout = std::chrono::seconds(arguments.timeout),
                   .silence = {.dead_after = std::chrono::seconds(arguments.dead_after)},
                   .agent_timeout = std::chrono::seconds(arguments.agent_timeout),
                   .serves = service.has_value()});
    code = bridge.run();
  }
  if (service) service->shutdown(Deadline::after(kFarewell));
  return code;
}

int run(int count, char** values) {
  CLI::App app{
      "The rendezvous of a dlrun job: its nodes find each other here, agree on the members, and "
      "share small facts.\ndlrun starts it when it needs it. The job key comes from DLRUN_KEY_FD "
      "or "
      "DLRUN_KEY_FILE.",
      "dlrun-rendezvous"};
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  Arguments arguments;

  CLI::App* serving = app.add_subcommand("serve", "serve the store and the membership of one job");
  serving->add_option("--fd", arguments.fd, "inherited descriptor that listens")->required();
  serving->add_option("--job", arguments.job, "name of the job")->required();
  serving->add_option(
      "--lifeline-fd", arguments.lifeline_fd,
      "the service ends when this descriptor reaches its end (default: standard input)");

  CLI::App* joining = app.add_subcommand(
      "join", "take part as a node, on behalf of dlrun: JSON lines on standard input and output");
  joining
      ->add_option("--endpoint", arguments.endpoints,
                   "HOST:PORT of the service; several are further addresses of it")
      ->required()
      ->allow_extra_args(false)
      ->take_all();
  joining->add_option("--job", arguments.job, "name of the job")->required();
  joining->add_option("--listen-fd", arguments.listen_fd,
                      "inherited descriptor that listens at the endpoint: serve there, too");
  joining->add_flag(
      "--moves", arguments.moves,
      "with --listen-fd: when the nodes have met, leave its port to the ranks, serve at "
      "another");
  joining->add_option("--timeout", arguments.timeout, "seconds to wait for the other nodes (600)")
      ->transform(whole_seconds());
  joining
      ->add_option("--agent-timeout", arguments.agent_timeout,
                   "seconds after which a dlrun that is stopped or stuck ends the job (600)")
      ->transform(whole_seconds());
  for (CLI::App* command : {serving, joining}) {
    command
        ->add_option("--dead-after", arguments.dead_after,
                     "seconds of silence after which the other side is lost (10)")
        ->transform(whole_seconds());
  }
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return 2;
    require_written(stdout, "standard output");
    return 0;
  }

  leave_signals_to_dlrun();
  log::set_who("rendezvous");
  return serving->parsed() ? serve(arguments) : join(arguments);
}

}  // namespace

int main(int count, char** values) {
  open_missing_standard_streams();
  try {
    take_little_memory();
    end_when_out_of_memory();
    return run(count, values);
  } catch (const std::exception& error) {  // including the system's: no memory, no thread
    std::fprintf(stderr, "dlrun-rendezvous: %s\n", text_with_limits(error).c_str());
    return 1;
  }
}
