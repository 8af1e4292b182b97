#include "launcher/job/agent.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/job_secret.h"
#include "launcher/process/descendants.h"
#include "launcher/process/file_format.h"
#include "launcher/process/program.h"
#include "launcher/process/rank_files.h"

namespace dl::launcher {
namespace {}  // namespace

Agent::Agent(const Options& options, const Plan& plan, SupervisorHandle supervisor)
    : options_(options),
      plan_(plan),
      key_(job_secret(plan.nnodes, options.key_file).to_memfd()),
      warden_(supervisor.warden),
      output_(io_, options.log_dir, [this](int error) { on_output_lost(error); }),
      supervisor_(
          io_, std::move(supervisor.channel),
          [this](Message message) { on_message(std::move(message)); },
          [this] { on_supervisor_gone(); }),
      signals_(io_, [this](int signal) { on_signal(signal); }),
      timer_(io_),
      watch_timer_(io_),
      link_timer_(io_),
      start_timer_(io_),
      left_timer_(io_),
      warden_life_(io_, supervisor.warden_life.release()),
      store_door_(io_) {
  wait_for_wardens_end();
}

Agent::~Agent() = default;

int Agent::run() {
  ranks_.resize(plan_.ranks.size());
  if (plan_.nnodes > 1) {
    join_nodes();
  } else {
    meeting_ = supposed_meeting(plan_);
    wait_for_store_client();
    open_logs();
  }
  io_.run();
  finished_ = true;
  for (auto* const timer : {&timer_, &link_timer_, &start_timer_, &left_timer_}) timer->cancel();
  end_descendants();
  output_.drain();
  return bring_out(ending());
}

void Agent::open_logs() {
  std::vector<int> ranks;
  for (const Rank& rank : ranks_) ranks.push_back(rank_number(rank));
  output_.open_logs(meeting_->run, meeting_->group_rank, ranks, [this](const std::string& error) {
    if (stopping_) return;
    if (error.empty()) {
      start_ranks();
    } else {
      end_job({1, error}, SIGTERM);
      finish_if_all_ended();
    }
  });
}

void Agent::start_ranks() {
  if (const std::string why = why_no_recorders(); !why.empty()) say(why);
  start_some();
  watch_start();
}

bool Agent::is_starting() const {
  return begun_ > 0 && begun_ < ranks_.size() && !stopping_;
}

void Agent::start_some() {
  while (begun_ < ranks_.size() && !stopping_) {
    if (supervisor_.waiting() > kMostSpawnsWaiting) {
      supervisor_.when_sent([this] { start_some(); });
      return;
    }
    ++alive_;
    ranks_[begun_].asked = true;
    start_rank(ranks_[begun_], plan_.ranks[begun_]);
    ++begun_;
  }
}

void Agent::start_rank(Rank& rank, const LocalRank& where) {
  const int number = rank_number(rank);
  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  auto [lifeline, rank_lifeline] = make_channel();
  rank.lifeline = std::make_unique<boost::asio::posix::stream_descriptor>(io_, lifeline.release());
  wait_for_lifeline(rank);

  rank.recorder = make_recorder({.rank = number,
                                 .world_size = meeting_->world_size,
                                 .generation = meeting_->generation,
                                 .host = plan_.host,
                                 .job = plan_.job});
  rank.error_memory = make_memory_file("error-file");

  Handles handles;
  handles.key_fd = kKeyFd;
  handles.key_file = path_of_descriptor(key_.get());
  handles.lifeline_fd = kLifelineFd;
  if (rank.recorder) handles.recorder_fd = kRecorderFd;
  handles.error_file = path_of_descriptor(rank.error_memory.get());
  if (output_.out().is_terminal()) {
    const int prefix = static_cast<int>(prefix_of(rank).size());
    handles.progress_width = std::max(0, output_.out().columns() - 1 - prefix);
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

  using Stream = JobOutput::Stream;
  const std::string prefix = prefix_of(rank);
  rank.out = &output_.add(std::move(out_pipe.read), Stream::kOut, number, prefix);
  rank.err = &output_.add(std::move(err_pipe.read), Stream::kErr, number, prefix);
}

std::string Agent::prefix_of(const Rank& rank) const {
  return options_.prefix ? fmt::format("[rank {}] ", rank_number(rank)) : "";
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
  rank.asked = false;
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
  judge(rank);
  finish_if_all_ended();
}

int Agent::rank_number(const Rank& rank) const {
  return (meeting_ ? meeting_->first_rank : 0) + static_cast<int>(&rank - ranks_.data());
}

std::chrono::milliseconds Agent::ran(const Rank& rank) const {
  const Clock::time_point end = rank.ended ? rank.stopped : Clock::now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(end - rank.started);
}

}  // namespace dl::launcher
