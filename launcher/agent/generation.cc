#include "launcher/agent/generation.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/cgroup.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"
#include "launcher/plan/environment.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/file_format.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/verdict/lost_peer.h"

namespace dl::launcher {

using rendezvous::kAnyRank;

namespace {

// SLURM signals every process of a step, unless its proctrack plugin knows the step's own child.
// Such a signal ends a rank that does not handle it, and the rank's end tells nothing about a
// cause.
bool is_signal_of_slurm(int status) {
  if (!WIFSIGNALED(status) || !env::is_set(env::Var::kSlurmJobId)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGTERM || signal == SIGUSR1 || signal == SIGUSR2;
}

}  // namespace

Generation::Generation(boost::asio::io_context& io, Setting setting, Meeting meeting, bool judges,
                       UniqueFd channel, GenerationEvents& events)
    : io_(io),
      set_(setting),
      meeting_(std::move(meeting)),
      judges_(judges),
      events_(events),
      supervisor_(
          io, std::move(channel), [this](Message message) { on_message(std::move(message)); },
          [this] {
            if (!finished_) events_.on_supervisor_lost();
          }),
      watch_timer_(io),
      start_timer_(io),
      ranks_(set_.plan.ranks.size()) {
  if (set_.plan.serves_pmi) {
    pmi_ = std::make_unique<PmiServer>(
        io_, static_cast<int>(ranks_.size()),
        PmiServer::Events{.on_note =
                              [this](const std::string& line) {
                                if (!stopping_) events_.on_note(line);
                              },
                          .on_abort =
                              [this](int rank, int exit_code) {
                                events_.on_stop(
                                    {exit_code, fmt::format("rank {} called MPI_Abort with {}",
                                                            rank, exit_code)});
                              },
                          .on_line =
                              [this] {
                                judge_pmi();
                                act_on_first_cause();
                              }});
  }
}

// The start.

void Generation::start() {
  memory_kills_before_ = memory_kills();
  start_some();
  watch_start();
}

bool Generation::is_starting() const {
  return begun_ > 0 && begun_ < ranks_.size() && !stopping_;
}

void Generation::start_some() {
  while (begun_ < ranks_.size() && !stopping_) {
    if (supervisor_.waiting() > kMostSpawnsWaiting) {
      supervisor_.when_sent([this] { start_some(); });
      return;
    }
    ++alive_;
    ranks_[begun_].asked = true;
    start_rank(ranks_[begun_], set_.plan.ranks[begun_]);
    ++begun_;
  }
}

void Generation::start_rank(Rank& rank, const LocalRank& where) {
  const int number = number_of(rank);
  Pipe out_pipe = make_pipe();
  Pipe err_pipe = make_pipe();
  auto [lifeline, rank_lifeline] = make_channel();
  rank.lifeline = std::make_unique<boost::asio::posix::stream_descriptor>(io_, lifeline.release());
  wait_for_lifeline(rank);

  rank.recorder = make_recorder({.rank = number,
                                 .world_size = meeting_.world_size,
                                 .generation = meeting_.generation,
                                 .host = set_.plan.host,
                                 .job = set_.plan.job.name});
  rank.error_memory = make_memory_file("error-file");

  Handles handles;
  handles.key_fd = kKeyFd;
  handles.key_file = path_of_descriptor(set_.key.get());
  handles.lifeline_fd = kLifelineFd;
  if (rank.recorder) handles.recorder_fd = kRecorderFd;
  handles.error_file = path_of_descriptor(rank.error_memory.get());
  handles.checkpoint = set_.checkpoint;
  handles.progress_width = set_.settings.progress_columns;
  if (pmi_) handles.pmi_fd = kPmiFd;

  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = static_cast<std::uint32_t>(where.local_rank);
  spawn.environment = rank_environment(set_.plan, meeting_, where, handles);
  spawn.cpus = where.binding.cpus;
  const auto give = [&spawn](UniqueFd fd, int child_number) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(child_number);
  };
  give(number == 0 ? stdin_for_rank() : open_empty_input(), STDIN_FILENO);
  give(std::move(out_pipe.write), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(set_.key.get()), kKeyFd);
  give(std::move(rank_lifeline), kLifelineFd);
  if (rank.recorder) give(duplicate(rank.recorder.get()), kRecorderFd);
  if (pmi_) give(pmi_->add(number), kPmiFd);
  rank.started = Clock::now();
  supervisor_.send(std::move(spawn));

  rank.out = &set_.output.add(std::move(out_pipe.read), Stream::kOut, number);
  rank.err = &set_.output.add(std::move(err_pipe.read), Stream::kErr, number);
}

// While the supervisor executes a program it does nothing else.
void Generation::watch_start() {
  start_timer_.expires_after(kSilence);
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    const std::vector<int> missing = ranks_being_started();
    if (missing.empty()) return;
    events_.on_note(
        fmt::format("{} {} not started yet after {} s: the system does not come to the end of "
                    "executing {}; does its file system hang?",
                    rank_list(missing), missing.size() == 1 ? "is" : "are", kSilence.count(),
                    set_.plan.program.path));
  });
}

// Messages of the supervisor.

void Generation::on_message(Message message) {
  if (message.kind == MessageKind::kFinished) {
    finished_ = true;
    start_timer_.cancel();
    watch_timer_.cancel();
    events_.on_finished();
    return;
  }
  if (message.kind == MessageKind::kWardenGone) {
    events_.on_warden_lost();
    return;
  }
  Rank& rank = ranks_.at(message.slot);
  switch (message.kind) {
    case MessageKind::kStarted:
      rank.pid = message.number;
      rank.running = true;
      events_.on_rank_started(number_of(rank), rank.pid);
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

void Generation::on_not_started(Rank& rank, const Message& message) {
  --alive_;
  rank.asked = false;
  const int error = message.number;
  // The program is to blame only if its execution failed.
  const bool is_programs = message.text == "exec" && !is_want_of_room(error);
  const int exit_code = !is_programs ? 1 : error == ENOENT ? kExitNotFound : kExitNotExecutable;
  const std::string& program = set_.plan.program.path;
  std::string why = spawn_error_text(error);
  if (is_programs && error == ENOENT) why += ": " + why_no_interpreter(program);
  if (is_programs && error == ENOEXEC) why += ": " + why_not_executed(program);
  events_.on_stop({exit_code, fmt::format("rank {} could not be started: {} of {}: {}",
                                          number_of(rank), message.text, program, why)});
  check_ended();
}

void Generation::on_exited(Rank& rank, int status) {
  --alive_;
  rank.running = false;
  rank.ended = true;
  rank.stopped = Clock::now();
  rank.ended_at = recorder_ticks();
  rank.end.rank = number_of(rank);
  rank.end.pid = rank.pid;
  rank.end.status = status;
  const bool is_dlruns = WIFSIGNALED(status) && signals_sent_.contains(WTERMSIG(status));
  const bool is_slurms = !stopping_ && !is_dlruns && is_signal_of_slurm(status);
  rank.end.stopped = stopping_ || is_slurms;
  if (is_dlruns) rank.ended_by = WTERMSIG(status);
  judge(rank);
  if (is_slurms) {
    events_.on_stop({128 + WTERMSIG(status),
                     fmt::format("rank {} was ended by {}, which SLURM sends to every process of a "
                                 "step; the job ends",
                                 number_of(rank), signal_name(WTERMSIG(status)))});
  }
  check_ended();
}

void Generation::check_ended() {
  if (alive_ > 0 || is_starting()) return;
  // No rank is left on this node that could still fail first.
  while (question_) answer();
  events_.on_all_ended(std::none_of(ranks_.begin(), ranks_.end(),
                                    [](const Rank& rank) { return rank.end.failed(); }));
}

// Orders.

void Generation::stop(int to_send) {
  stopping_ = true;
  signal(to_send);
  signal(SIGCONT);  // a stopped process takes no other signal
}

// Reaches every rank that was requested before, because the supervisor takes messages in order.
void Generation::signal(int signal) {
  signals_sent_.insert(signal);
  supervisor_.send(signal_message(kEverySlot, signal));
}

void Generation::finish(Leftovers order) {
  to_finish_ = true;
  Message message;
  message.kind = MessageKind::kFinish;
  message.number = static_cast<std::int32_t>(order);
  supervisor_.send(std::move(message));
}

// The first cause.

void Generation::wait_for_lifeline(Rank& rank) {
  rank.lifeline->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [this, &rank](const boost::system::error_code& error) {
                              if (error || rank.ended) return;
                              on_lifeline(rank);
                            });
}

void Generation::on_lifeline(Rank& rank) {
  char first;
  // Zero: the program has closed its end.
  const bool is_open = ::recv(rank.lifeline->native_handle(), &first, 1, MSG_PEEK) != 0;
  read_lifeline(rank);
  if (is_open) wait_for_lifeline(rank);
}

void Generation::read_lifeline(Rank& rank) {
  char packet[64 * 1024];
  ssize_t n;
  while ((n = ::recv(rank.lifeline->native_handle(), packet, sizeof packet, MSG_DONTWAIT)) > 0) {
    const std::string_view said(packet, static_cast<std::size_t>(n));
    if (auto failure = rendezvous::decode_peer_failure(said)) {
      if (!rank.follows) {
        rank.follows = std::move(failure);
      } else if (rank.follows->call.empty()) {
        rank.follows->call = failure->call;  // it has called it since
      }
    } else if (const auto waiting = rendezvous::decode_waiting(said)) {
      first_cause_.waits(number_of(rank), *waiting);
      events_.on_rank_waits(number_of(rank), *waiting);
      act_on_first_cause();
    }
  }
}

void Generation::judge(Rank& rank) {
  // A rank reports before it ends, so its last report has arrived by now.
  read_lifeline(rank);
  if (pmi_) pmi_->ended(number_of(rank));
  rank.lifeline->close();
  rank.end.follows = rank.follows;
  if (rank.end.failed()) {
    rank.err->take_what_is_there();
    if (const auto now = memory_kills(); now && memory_kills_before_) {
      rank.memory_kills = *now - *memory_kills_before_;
    }
    rank.end.lost_peer = !rank.end.follows && says_peer_was_lost(rank.err->tail());
  }
  first_cause_.ended(rank.end);
  if (pmi_) judge_pmi();
  RankEnd end = rank.end;
  if (!judges_ && !end.stopped) {
    const RankFacts facts = facts_of(rank);
    end.text = describe_end(facts, {set_.plan.host, meeting_.group_rank});
    for (const std::string& line : last_words(facts)) end.detail += line + "\n";
  }
  events_.on_rank_ended(end, local_rank_of(end.rank));
  act_on_first_cause();
}

// Tells the rule which ranks wait in MPI_Init or MPI_Finalize for a rank that has ended.
void Generation::judge_pmi() {
  auto waits = pmi_->waits(
      [this](int rank) { return ranks_.at(static_cast<std::size_t>(local_rank_of(rank))).ended; });
  for (const auto& [rank, waiting] : pmi_waits_) {
    if (!waits.contains(rank)) first_cause_.waits(rank, {});
  }
  for (const auto& [rank, waiting] : waits) first_cause_.waits(rank, waiting);
  pmi_waits_ = std::move(waits);
}

void Generation::act_on_first_cause() {
  if (stopping_) return;
  if (first_cause_.finding()) {
    events_.on_cause();
  } else if (judges_ && first_cause_.question()) {
    ask(*first_cause_.question());
  }
}

void Generation::ask(rendezvous::Question question) {
  if (question_ == question) return;
  question_ = question;
  watch(question, question.patience,
        Clock::now() + std::max<std::chrono::milliseconds>(kMostEnding, question.patience));
  if (alive_ == 0) answer();
}

void Generation::watch(rendezvous::Question question, std::chrono::milliseconds time,
                       Clock::time_point latest) {
  watch_timer_.expires_after(time);
  watch_timer_.async_wait([this, question, latest](const boost::system::error_code& error) {
    if (error || stopping_ || question_ != question) return;
    const bool is_ending_now = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      const bool is_meant = question.rank == kAnyRank || question.rank == number_of(rank);
      return is_meant && rank.running && is_ending(rank.pid);
    });
    if (is_ending_now && Clock::now() < latest) {
      constexpr std::chrono::milliseconds kLook{20};
      watch(question, kLook, latest);
      return;
    }
    answer();
    check_ended();
  });
}

void Generation::answer() {
  const int rank = question_->rank;
  question_.reset();
  if (!judges_) {
    events_.on_rank_goes_on(rank);
    return;
  }
  first_cause_.goes_on(rank);
  act_on_first_cause();
}

// Facts.

std::vector<RankFacts> Generation::facts() const {
  std::vector<RankFacts> facts;
  for (const Rank& rank : ranks_) facts.push_back(facts_of(rank));
  return facts;
}

RankFacts Generation::facts_of(const Rank& rank) const {
  const Clock::time_point end = rank.ended ? rank.stopped : Clock::now();
  RankFacts one;
  one.rank = number_of(rank);
  one.pid = rank.pid;
  one.started = rank.pid > 0;
  one.ended = rank.ended;
  one.ended_by = rank.ended_by;
  one.ran = std::chrono::duration_cast<std::chrono::milliseconds>(end - rank.started);
  one.end = rank.end;
  one.memory_kills = rank.memory_kills;
  if (rank.err != nullptr) one.stderr_tail = rank.err->tail();
  if (rank.out != nullptr) one.stdout_tail = rank.out->tail();
  if (rank.error_memory) {
    one.error_file = read_file(path_of_descriptor(rank.error_memory.get()));
  }
  return one;
}

int Generation::number_of(const Rank& rank) const {
  return meeting_.ranks[static_cast<std::size_t>(&rank - ranks_.data())];
}

std::vector<int> Generation::ranks_being_started() const {
  std::vector<int> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.asked && !rank.running && !rank.ended) ranks.push_back(number_of(rank));
  }
  return ranks;
}

std::vector<Generation::Running> Generation::running() const {
  std::vector<Running> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.running) ranks.push_back({number_of(rank), rank.pid});
  }
  return ranks;
}

std::map<pid_t, int> Generation::ranks_by_pid() const {
  std::map<pid_t, int> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) ranks[rank.pid] = number_of(rank);
  }
  return ranks;
}

std::vector<std::string> Generation::who_is_left() const {
  std::vector<std::string> left;
  for (const Rank& rank : ranks_) {
    if (rank.running) {
      left.push_back(
          fmt::format("rank {}, pid {}: {}", number_of(rank), rank.pid, why_it_stays(rank.pid)));
    } else if (rank.asked && !rank.ended) {
      left.push_back(fmt::format("rank {}, which is not started yet: executing {} does not end",
                                 number_of(rank), set_.plan.program.path));
    }
  }
  return left;
}

std::vector<RecorderCopy> Generation::copy_recorders(int cause) const {
  using collectives::record::End;
  std::vector<RecorderCopy> copies;
  for (const Rank& rank : ranks_) {
    if (!rank.recorder) continue;
    copies.push_back(
        copy_recorder(rank.recorder.get(), {.pid = rank.pid,
                                            .end = rank.ended      ? End::kEnded
                                                   : rank.running  ? End::kRunning
                                                   : rank.pid <= 0 ? End::kNotStarted
                                                                   : End::kUnknown,
                                            .status = rank.end.status,
                                            .ended_at = rank.ended_at,
                                            .was_stopped = rank.end.stopped,
                                            .is_cause = rank.ended && cause == number_of(rank)}));
  }
  return copies;
}

std::vector<std::pair<int, std::string>> Generation::error_files() const {
  std::vector<std::pair<int, std::string>> files;
  for (const Rank& rank : ranks_) {
    if (!rank.error_memory) continue;
    std::string text = read_file(path_of_descriptor(rank.error_memory.get()));
    if (!text.empty()) files.emplace_back(number_of(rank), std::move(text));
  }
  return files;
}

}  // namespace dl::launcher
