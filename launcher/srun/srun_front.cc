#include "launcher/srun/srun_front.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/unique_fd.h"
#include "launcher/output/disk_thread.h"
#include "launcher/output/job_output.h"
#include "launcher/process/job_signals.h"
#include "launcher/slurm/hostlist.h"
#include "launcher/srun/srun_task.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/job_key.h"
#include "rendezvous/net/socket.h"

namespace dl::launcher {
namespace {

using boost::asio::posix::stream_descriptor;

// From srun's end on, for what the nodes' last bytes take; and for srun to end after SIGKILL of its
// tasks.
constexpr std::chrono::seconds kLastBytes{5};
constexpr std::chrono::seconds kMostEnding{30};

// If GPUs are counted for each task of the job, srun would take them for those of one task a node.
std::optional<std::int64_t> gpus_of_a_node() {
  const auto each = env::get(env::Var::kSlurmGpusPerTask);  // "2", "tesla:2"
  if (!each) return std::nullopt;
  if (const auto gpus = env::get_int(env::Var::kSlurmGpusOnNode)) return gpus;
  const std::vector<int> tasks =
      expand_counts(env::get(env::Var::kSlurmTasksPerNode).value_or("1"));
  return std::int64_t{tasks.front()} * expand_counts(each->substr(each->rfind(':') + 1)).front();
}

std::vector<std::string> line_of_srun(const SlurmAllocation& allocation,
                                      const std::vector<std::string>& own) {
  const std::size_t nodes = allocation.hosts.size();
  // --overlap: the batch script's own step holds CPUs. --mem=0: all of the job's memory.
  std::vector<std::string> line = {"srun",
                                   fmt::format("--nodes={}", nodes),
                                   fmt::format("--ntasks={}", nodes),
                                   "--ntasks-per-node=1",
                                   "--mpi=none",
                                   "--cpu-bind=none",
                                   "--overlap",
                                   "--quiet",
                                   "--mem=0",
                                   "--kill-on-bad-exit=0",
                                   "--export=ALL"};
  if (const auto gpus = gpus_of_a_node()) {
    line.push_back(fmt::format("--gpus-per-node={}", *gpus));
  }
  line.push_back(std::filesystem::read_symlink("/proc/self/exe"));
  line.insert(line.end(), own.begin(), own.end());
  return line;
}

// What srun would read, against its own options above.
void clear_environment_of_srun() {
  for (const char* const name : {"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
                                 "SLURM_GPUS_PER_TASK", "SRUN_CPUS_PER_TASK"}) {
    ::unsetenv(name);
  }
}

// srun, in a process group of its own: the terminal's signals are the front's to pass on. It dies
// with the front, and SLURM ends its tasks then.
pid_t start_srun(std::vector<std::string> line, UniqueFd input, std::uint16_t port) {
  const std::string variable = fmt::format("{}={}", env::name_of(env::Var::kSrunFront), port);
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t front = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw_errno(errno, "fork");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != front) ::_exit(1);
  ::setpgid(0, 0);
  ::dup2(input.get(), STDIN_FILENO);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDOUT_FILENO);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  clear_environment_of_srun();
  ::putenv(const_cast<char*>(variable.c_str()));
  ::execvp(argv[0], argv.data());
  fmt::print(stderr, "dlrun: srun could not be run: {}; is SLURM's bin folder in PATH?\n",
             std::strerror(errno));
  ::_exit(127);
}

// Bytes that srun passes to every task.
UniqueFd input_with(const rendezvous::JobKey& key) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const std::string line = key.hex() + "\n";
  if (::write(write_end.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw_errno(errno, "write the job's key for srun");
  }
  return read_end;
}

class SrunFront {
 public:
  SrunFront(const Options& options, const SlurmAllocation& allocation,
            const std::vector<std::string>& line)
      : options_(options),
        nodes_(allocation.hosts.size()),
        key_(options.key_file.empty() ? rendezvous::JobKey::generate()
                                      : rendezvous::JobKey::from_file(options.key_file)),
        listener_(rendezvous::Listener::bind()),
        port_(listener_.port()),
        srun_(start_srun(line_of_srun(allocation, line), input_with(key_), port_)),
        disk_(io_),
        // Prefixes are the nodes' business.
        output_(
            io_, disk_, [](const StreamId&) { return LineLook(); },
            [this](int error) { on_output_lost(error); }),
        signals_(io_, [this](int signal) { on_signal(signal); }),
        acceptor_(std::move(listener_), key_, {.job = std::string(kSrunJob), .from = "dlrun"},
                  2 * nodes_),
        door_(io_, ::dup(acceptor_.poll_fd())),
        srun_life_(io_, static_cast<int>(::syscall(SYS_pidfd_open, srun_, 0))),
        timer_(io_) {
    for (const Stream stream : {Stream::kOut, Stream::kErr}) {
      acceptor_.serve(std::string(purpose_of(stream)), rendezvous::kAnyGeneration,
                      [this, stream](rendezvous::Connection connection) {
                        take(stream, std::move(connection));
                      });
    }
    wait_for_tasks();
    wait_for_srun();
  }
  ~SrunFront() {
    if (srun_ > 0) ::kill(srun_, SIGKILL);
  }

  int run() {
    io_.run();
    output_.begin_finish();
    output_.show({});
    output_.finish();
    if (output_lost_ == EPIPE || output_.lost() == EPIPE) return 128 + SIGPIPE;
    if (output_lost_ != 0) return 1;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  struct Channel {
    StreamId id;
    stream_descriptor socket;
    bool is_open = true;
  };

  void wait_for_tasks() {
    door_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error || over_) return;
      acceptor_.process();
      wait_for_tasks();
    });
  }

  void take(Stream stream, rendezvous::Connection connection) {
    // The attempt's place has the node's number: each node's stream has lines of its own.
    Channel& channel = *channels_.emplace_back(std::make_unique<Channel>(
        Channel{.id = {.attempt = connection.peer.rank, .rank = -1, .stream = stream},
                .socket = stream_descriptor(io_, connection.fd.release())}));
    if (stream == Stream::kErr) {
      for (const int signal : early_signals_) send(channel, signal);
    }
    read_when_there_is_room(channel);
  }

  void read_when_there_is_room(Channel& channel) {
    if (!output_.has_room(channel.id.stream)) {
      output_.when_room(channel.id.stream, [this, &channel] { read_when_there_is_room(channel); });
      return;
    }
    channel.socket.async_wait(stream_descriptor::wait_read,
                              [this, &channel](const boost::system::error_code& error) {
                                if (error) return;
                                if (read(channel)) read_when_there_is_room(channel);
                              });
  }

  bool read(Channel& channel) {
    std::array<char, std::size_t{64} * 1024> part;
    const ssize_t n = ::read(channel.socket.native_handle(), part.data(), part.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    const bool is_last = n <= 0;
    output_.take({.id = channel.id,
                  .time = std::chrono::system_clock::now(),
                  .bytes = {part.data(), is_last ? 0 : static_cast<std::size_t>(n)},
                  .is_last = is_last});
    if (!is_last) return true;
    channel.is_open = false;
    stop_if_over();
    return false;
  }

  void wait_for_srun() {
    srun_life_.async_wait(stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (!error) on_srun_ended();
                          });
  }

  void on_srun_ended() {
    while (::waitpid(srun_, &status_, 0) < 0 && errno == EINTR) {
    }
    srun_ = -1;
    timer_.expires_after(kLastBytes);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) stop();
    });
    stop_if_over();
  }

  void stop_if_over() {
    if (srun_ > 0) return;
    for (const auto& channel : channels_) {
      if (channel->is_open) return;
    }
    stop();
  }

  void stop() {
    over_ = true;
    io_.stop();
  }

  void on_signal(int signal) {
    switch (meaning_of(signal)) {
      case SignalMeaning::kSystem:
        return;
      case SignalMeaning::kSuspend:
        output_.say("Ctrl-Z does not stop a job on several nodes; `scontrol suspend` does");
        return;
      case SignalMeaning::kReport:
      case SignalMeaning::kForward:
        send_to_all(signal);
        return;
      case SignalMeaning::kEndJob:
        end_for(signal);
        return;
    }
  }

  // Node 0 tells the others, which then have one cause.
  void end_for(int signal) {
    if (ends_++ == 0) {
      send_to_first(signal);
    } else {
      send_to_all(signal);
    }
    output_.hurry_until(JobOutput::Clock::now() + options_.grace);
    // A request to save takes its time; SLURM limits it.
    if (ends_ == 1 && options_.preempt_on_term && signal == SIGTERM) return;
    timer_.expires_after(ends_ < 3 ? options_.grace + kMostEnding : std::chrono::milliseconds(0));
    timer_.async_wait([this](const boost::system::error_code& error) {
      // SLURM ends the step of an srun that is gone.
      if (!error && srun_ > 0) ::kill(srun_, SIGKILL);
    });
  }

  void send_to_first(int signal) {
    for (const auto& channel : channels_) {
      if (channel->id.stream == Stream::kErr && channel->id.attempt == 0) {
        send(*channel, signal);
        return;
      }
    }
    early_signals_.push_back(signal);
  }

  void send_to_all(int signal) {
    for (const auto& channel : channels_) {
      if (channel->id.stream == Stream::kErr) send(*channel, signal);
    }
  }

  static void send(Channel& channel, int signal) {
    if (!channel.is_open) return;
    const auto byte = static_cast<char>(signal);
    [[maybe_unused]] const ssize_t n =
        ::send(channel.socket.native_handle(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void on_output_lost(int error) {
    output_lost_ = error;
    if (error != EPIPE) {
      output_.say(fmt::format("write to standard output: {}", std::strerror(error)));
    }
    end_for(SIGPIPE);
  }

  const Options& options_;
  std::size_t nodes_;
  rendezvous::JobKey key_;
  rendezvous::Listener listener_;
  std::uint16_t port_;
  pid_t srun_;  // -1: it has ended
  boost::asio::io_context io_{1};
  DiskThread disk_;
  JobOutput output_;
  JobSignals signals_;
  rendezvous::Acceptor acceptor_;
  stream_descriptor door_;
  stream_descriptor srun_life_;
  boost::asio::steady_timer timer_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<int> early_signals_;  // for node 0
  int ends_ = 0;
  int status_ = 0;
  int output_lost_ = 0;
  bool over_ = false;
};

}  // namespace

int run_front_of_srun(const Options& options, const SlurmAllocation& allocation,
                      const std::vector<std::string>& line) {
  return SrunFront(options, allocation, line).run();
}

}  // namespace dl::launcher
