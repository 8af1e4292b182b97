#include "launcher/agent.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "launcher/descendants.h"
#include "launcher/environment.h"
#include "launcher/file_format.h"
#include "launcher/job_secret.h"
#include "launcher/lost_peer.h"
#include "launcher/program.h"
#include "launcher/rank_files.h"

namespace dl::launcher {
namespace {

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Agent::Agent(const Options& options, const Plan& plan, SupervisorHandle supervisor)
    : options_(options),
      plan_(plan),
      key_(job_secret(plan.nnodes, options.key_file).to_memfd()),
      warden_(supervisor.warden),
      out_(io_, STDOUT_FILENO, [this](int error) { on_output_lost(error); }),
      own_err_(same_file(STDOUT_FILENO, STDERR_FILENO)
                   ? nullptr
                   : std::make_unique<Sink>(io_, STDERR_FILENO, std::function<void(int)>())),
      supervisor_(
          io_, std::move(supervisor.channel),
          [this](Message message) { on_message(std::move(message)); },
          [this] { on_supervisor_gone(); }),
      signals_(io_),
      timer_(io_),
      link_timer_(io_),
      warden_life_(io_, supervisor.warden_life.release()),
      store_door_(io_) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1}) signals_.add(signal);
  // nohup, and shells without job control, ask for these two to be ignored.
  for (const int signal : {SIGHUP, SIGTSTP}) {
    if (!is_ignored(signal)) signals_.add(signal);
  }
  wait_for_signals();
  wait_for_wardens_end();
}

Agent::~Agent() = default;

int Agent::run() {
  raise_descriptor_limit();
  ranks_.resize(plan_.ranks.size());
  if (plan_.nnodes > 1) {
    join_nodes();
  } else {
    meeting_ = supposed_meeting(plan_);
    wait_for_store_client();
    start_ranks();
  }
  io_.run();
  // From here on a second Ctrl-C means what it means to any program.
  signals_.clear();
  kill_descendants();
  for (Rank& rank : ranks_) {
    if (rank.out) rank.out->drain();
    if (rank.err) rank.err->drain();
  }
  if (helper_err_) helper_err_->drain();
  const int exit_code = report();
  out_.flush();
  err().flush();
  return exit_code;
}

void Agent::start_ranks() {
  alive_ = static_cast<int>(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) start_rank(ranks_[i], plan_.ranks[i]);
}

void Agent::start_rank(Rank& rank, const LocalRank& where) {
  const int number = rank_number(rank);
  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  auto [lifeline, rank_lifeline] = make_channel();
  rank.lifeline = std::move(lifeline);

  rank.recorder = make_recorder({.rank = number,
                                 .world_size = meeting_->world_size,
                                 .generation = meeting_->generation,
                                 .host = plan_.host,
                                 .job = plan_.job});
  if (!options_.log_dir.empty()) remove_old_recorder(options_.log_dir, number);

  Handles handles;
  handles.key_fd = kKeyFd;
  handles.key_file = path_of_descriptor(key_.get());
  handles.lifeline_fd = kLifelineFd;
  if (rank.recorder) handles.recorder_fd = kRecorderFd;
  if (options_.log_dir.empty()) {
    rank.error_memory = make_memory_file("error-file");
    rank.error_file = path_of_descriptor(rank.error_memory.get());
  } else {
    // The rank makes it, if it fails; one of an earlier job says nothing about this one.
    rank.error_file = std::filesystem::absolute(log_path(options_.log_dir, number, "error.json"));
    remove_file(rank.error_file);
  }
  handles.error_file = rank.error_file;
  if (out_.is_terminal()) {
    const int prefix = static_cast<int>(output_options(rank, nullptr).prefix.size());
    handles.progress_width = std::max(0, out_.columns() - 1 - prefix);
  }

  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = static_cast<std::uint32_t>(where.local_rank);
  spawn.environment = rank_environment(plan_, *meeting_, where, handles);
  spawn.cpus.assign(where.cpus.begin(), where.cpus.end());
  const auto give = [&spawn](UniqueFd fd, int child_number) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(child_number);
  };
  give(number == 0 ? stdin_for_rank() : open_empty_input(), STDIN_FILENO);
  give(std::move(out_pipe.write), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(key_.get()), kKeyFd);
  give(std::move(rank_lifeline), kLifelineFd);
  if (rank.recorder) give(duplicate(rank.recorder.get()), kRecorderFd);
  rank.started = Clock::now();
  supervisor_.send(std::move(spawn));

  rank.out = std::make_unique<RankOutput>(io_, std::move(out_pipe.read), out_,
                                          output_options(rank, "stdout.log"));
  rank.err = std::make_unique<RankOutput>(io_, std::move(err_pipe.read), err(),
                                          output_options(rank, "stderr.log"));
}

RankOutput::Options Agent::output_options(const Rank& rank, const char* file) {
  RankOutput::Options options;
  const int number = rank_number(rank);
  if (options_.prefix) options.prefix = fmt::format("[rank {}] ", number);
  options.shows_status = number == 0;
  if (file != nullptr && !options_.log_dir.empty()) {
    options.log_file = create_file(log_path(options_.log_dir, number, file));
  }
  return options;
}

void Agent::on_message(Message message) {
  if (message.kind == MessageKind::kFinished) {
    finished_ = true;
    io_.stop();
    return;
  }
  if (message.kind == MessageKind::kWardenGone) {
    on_warden_gone();
    return;
  }
  if (message.slot >= kFirstHelperSlot) {
    on_helper_message(message);
    return;
  }
  Rank& rank = ranks_.at(message.slot);
  switch (message.kind) {
    case MessageKind::kStarted:
      on_started(rank, message.number);
      return;
    case MessageKind::kNotStarted:
      on_not_started(rank, message);
      return;
    case MessageKind::kExited:
      on_exited(rank, message.number);
      return;
    default:
      throw_error(ErrorKind::kInternal, "the supervisor sent a message of kind {}",
                  static_cast<std::uint32_t>(message.kind));
  }
}

void Agent::on_started(Rank& rank, pid_t pid) {
  rank.pid = pid;
  rank.running = true;
}

void Agent::on_not_started(Rank& rank, const Message& message) {
  --alive_;
  const int error = message.number;
  const int exit_code = error == ENOENT ? kExitNotFound : kExitNotExecutable;
  std::string why = std::strerror(error);
  if (error == ENOENT && message.text == "exec") why = "its interpreter is not there";
  if (error == ENOEXEC) why = why_not_executed(plan_.executable);
  end_job({exit_code, fmt::format("rank {} could not be started: {} of {}: {}", rank_number(rank),
                                  message.text, plan_.executable, why)},
          SIGTERM);
  finish_if_all_ended();
}

void Agent::on_exited(Rank& rank, int status) {
  --alive_;
  rank.running = false;
  rank.ended = true;
  rank.stopped = Clock::now();
  rank.ended_at = recorder_ticks();
  rank.end.rank = rank_number(rank);
  rank.end.pid = rank.pid;
  rank.end.status = status;
  rank.end.stopped = stopping_;
  // A rank speaks before it ends, so that its last word is here by now.
  rank.end.follows = read_lifeline(rank);
  if (rank.end.failed() && !rank.end.follows) {
    rank.err->take_what_is_there();
    rank.end.lost_peer = says_peer_was_lost(rank.err->tail());
  }
  follow(verdict_.rank_ended(rank.end));
  finish_if_all_ended();
}

std::optional<rendezvous::PeerFailure> Agent::read_lifeline(Rank& rank) const {
  std::optional<rendezvous::PeerFailure> found;
  char packet[64 * 1024];
  ssize_t n;
  while ((n = ::recv(rank.lifeline.get(), packet, sizeof packet, MSG_DONTWAIT)) > 0) {
    if (!found) {
      found =
          rendezvous::decode_peer_failure(std::string_view(packet, static_cast<std::size_t>(n)));
    }
  }
  return found;
}

int Agent::rank_number(const Rank& rank) const {
  return (meeting_ ? meeting_->first_rank : 0) + static_cast<int>(&rank - ranks_.data());
}

std::chrono::milliseconds Agent::ran(const Rank& rank) const {
  const Clock::time_point end = rank.ended ? rank.stopped : Clock::now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(end - rank.started);
}

}  // namespace dl::launcher
