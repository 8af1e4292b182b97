#include "launcher/agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/descendants.h"
#include "launcher/environment.h"
#include "launcher/job_secret.h"
#include "launcher/program.h"
#include "launcher/rank_files.h"
#include "rendezvous/net/job_key.h"

namespace dl::launcher {
namespace {

// Where a rank finds what it inherits: high enough that no shell script uses the number by habit.
constexpr int kKeyFd = 190;
constexpr int kLifelineFd = 191;
constexpr int kListenerFd = 192;  // dlrun-rendezvous only

constexpr const char* kHelperName = "dlrun-rendezvous";
// Time for the other nodes to agree on the first cause, and for their connections to end.
constexpr std::chrono::seconds kFarewell{3};

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
      out_(io_, STDOUT_FILENO, [this] { on_reader_gone(); }),
      own_err_(same_file(STDOUT_FILENO, STDERR_FILENO)
                   ? nullptr
                   : std::make_unique<Sink>(io_, STDERR_FILENO, std::function<void()>())),
      supervisor_(
          io_, std::move(supervisor.channel),
          [this](Message message) { on_message(std::move(message)); },
          [this] { on_supervisor_gone(); }),
      signals_(io_),
      timer_(io_),
      link_timer_(io_),
      store_door_(io_) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) signals_.add(signal);
  // nohup, and shells without job control, ask for these two to be ignored.
  for (const int signal : {SIGHUP, SIGTSTP}) {
    if (!is_ignored(signal)) signals_.add(signal);
  }
  wait_for_signals();
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

// The service behind the store's address takes longer to start than a rank, and many programs never
// ask for it.
void Agent::wait_for_store_client() {
  Listening listening = listen_on_loopback();
  meeting_->store = listening.address;
  store_door_.assign(listening.fd.release());
  store_door_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this](const boost::system::error_code& error) {
        if (error || stopping_ || finishing_) return;
        Pipe lifeline = make_pipe();
        service_lifeline_ = std::move(lifeline.write);
        start_helper({"serve", "--fd", std::to_string(kListenerFd), "--job", plan_.job},
                     std::move(lifeline.read), open_null(), UniqueFd(store_door_.release()));
      });
}

void Agent::join_nodes() {
  UniqueFd listener;
  if (plan_.node_rank == 0) listener = listen_everywhere(plan_.rdzv_endpoint, plan_.host).fd;
  const int master_port = supposed_meeting(plan_).master_port;
  link_ = std::make_unique<NodeLink>(
      io_, NodeEvents{.on_generation =
                          [this](Meeting meeting) {
                            if (stopping_) return;
                            meeting_ = std::move(meeting);
                            if (!options_.master_addr.empty()) {
                              meeting_->master_addr = options_.master_addr;
                            }
                            start_ranks();
                          },
                      .on_failed = [this](JobFailure f) { on_job_failed(std::move(f)); },
                      .on_all_done = [this] { close_link(); },
                      .on_error = [this](const std::string& kind,
                                         const std::string& text) { on_link_error(kind, text); },
                      .on_waiting = [this](const std::string& line) { say(line); }});
  std::vector<std::string> arguments = {
      "join",
      "--endpoint",
      plan_.rdzv_endpoint,
      "--job",
      plan_.job,
      "--timeout",
      std::to_string(std::max<std::int64_t>(
          1, std::chrono::ceil<std::chrono::seconds>(options_.join_timeout).count()))};
  if (listener) {
    arguments.insert(arguments.end(), {"--listen-fd", std::to_string(kListenerFd)});
  }
  start_helper(std::move(arguments), link_->take_stdin(), link_->take_stdout(),
               std::move(listener));
  link_->join(plan_, master_port);
}

// dlrun-rendezvous stands beside dlrun.
void Agent::start_helper(std::vector<std::string> arguments, UniqueFd in, UniqueFd out,
                         UniqueFd listener) {
  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = kFirstHelperSlot;
  spawn.text = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kHelperName;
  spawn.argv = std::move(arguments);
  spawn.argv.insert(spawn.argv.begin(), kHelperName);
  spawn.environment = {
      fmt::format("{}={}", env::name_of(env::Var::kKeyFd), kKeyFd),
      fmt::format("{}={}", env::name_of(env::Var::kKeyFile), path_of_descriptor(key_.get()))};
  Pipe err_pipe = make_pipe();
  const auto give = [&spawn](UniqueFd fd, int child_number) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(child_number);
  };
  give(std::move(in), STDIN_FILENO);
  give(std::move(out), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(key_.get()), kKeyFd);
  if (listener) give(std::move(listener), kListenerFd);
  helper_runs_ = true;
  supervisor_.send(std::move(spawn));
  helper_err_ =
      std::make_unique<RankOutput>(io_, std::move(err_pipe.read), err(), RankOutput::Options());
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

  Handles handles;
  handles.key_fd = kKeyFd;
  handles.key_file = path_of_descriptor(key_.get());
  handles.lifeline_fd = kLifelineFd;
  if (options_.log_dir.empty()) {
    rank.error_file = make_memory_file("error-file");
    handles.error_file = path_of_descriptor(rank.error_file.get());
  } else {
    const std::string path = log_path(options_.log_dir, number, "error.json");
    rank.error_file = create_file(path);
    handles.error_file = std::filesystem::absolute(path);
  }
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
  give(number == 0 ? stdin_for_rank() : open_null(), STDIN_FILENO);
  give(std::move(out_pipe.write), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(key_.get()), kKeyFd);
  give(std::move(rank_lifeline), kLifelineFd);
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
  end_job({exit_code, fmt::format("rank {} could not be started: {} of {}: {}", rank_number(rank),
                                  message.text, plan_.executable, why)},
          SIGTERM);
  finish_if_all_ended();
}

void Agent::on_helper_message(const Message& message) {
  if (message.kind == MessageKind::kStarted) return;
  helper_runs_ = false;
  if (link_over_ || finishing_) {  // as asked
    finish_if_all_ended();
    return;
  }
  link_over_ = true;
  std::string how = message.kind == MessageKind::kNotStarted
                        ? fmt::format("could not be started: {}", std::strerror(message.number))
                        : how_it_ended(message.number);
  end_job({1, fmt::format("{}, which the ranks meet through, {}", kHelperName, how)}, SIGTERM);
  finish_if_all_ended();
}

// Another node, or this one, has the first failure of the whole job.
void Agent::on_job_failed(JobFailure failure) {
  link_over_ = true;
  const bool ours = meeting_ && failure.group_rank == meeting_->group_rank;
  if (!ours && !other_cause_) job_failure_ = std::move(failure);
  stop_ranks(SIGTERM);
  finish_if_all_ended();
}

void Agent::on_link_error(const std::string& kind, const std::string& text) {
  link_over_ = true;
  const bool late = kind == name_of(ErrorKind::kTimeout);
  end_job({late ? kExitTimeout : 1,
           kind == "refused" ? "this node is not part of the job: " + text : text},
          SIGTERM);
  finish_if_all_ended();
}

void Agent::on_exited(Rank& rank, int status) {
  --alive_;
  rank.running = false;
  rank.ended = true;
  rank.stopped = Clock::now();
  rank.end.rank = rank_number(rank);
  rank.end.pid = rank.pid;
  rank.end.status = status;
  rank.end.stopped = stopping_;
  // A rank speaks before it ends, so that its last word is here by now.
  rank.end.follows = read_lifeline(rank);
  follow(verdict_.rank_ended(rank.end));
  finish_if_all_ended();
}

void Agent::follow(Verdict::Next next) {
  switch (next) {
    case Verdict::Next::kGoOn:
      return;
    case Verdict::Next::kStop:
      tell_nodes_of_cause();
      stop_ranks(SIGTERM);
      return;
    case Verdict::Next::kWaitForCause:
      timer_.expires_after(kCauseWait);
      timer_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopping_) return;
        follow(verdict_.cause_is_late());
        finish_if_all_ended();
      });
      return;
  }
}

void Agent::end_job(OtherCause cause, int signal) {
  if (link_ && !link_over_) {
    link_->leave(fmt::format("node {} (host {}): {}", plan_.node_rank, plan_.host,
                             cause.text.empty() ? "nobody reads its output any more" : cause.text));
    link_over_ = true;
  }
  if (!other_cause_ && !job_failure_ && verdict_.cause() == nullptr) {
    other_cause_ = std::move(cause);
  }
  stop_ranks(signal);
}

void Agent::stop_ranks(int signal) {
  if (stopping_) return;
  stopping_ = true;
  signal_ranks(signal);
  signal_ranks(SIGCONT);  // a stopped process takes no other signal
  timer_.expires_after(options_.grace);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) signal_ranks(SIGKILL);
  });
}

// Reaches every rank that was asked for before: the supervisor takes messages in order.
void Agent::signal_ranks(int signal) {
  Message message;
  message.kind = MessageKind::kSignal;
  message.slot = kEveryRank;
  message.number = signal;
  supervisor_.send(std::move(message));
}

void Agent::tell_nodes_of_cause() {
  if (!link_ || link_over_) return;
  const RankEnd& cause = *verdict_.cause();
  const std::vector<RankFacts> all = facts();
  const std::vector<std::string> page =
      failure_page(all.at(static_cast<std::size_t>(cause.rank - meeting_->first_rank)), all,
                   {plan_.host, meeting_->group_rank});
  JobFailure failure;
  failure.rank = cause.rank;
  failure.local_rank = cause.rank - meeting_->first_rank;
  failure.pid = cause.pid;
  failure.exit_code = WIFSIGNALED(cause.status) ? 0 : WEXITSTATUS(cause.status);
  failure.signal = WIFSIGNALED(cause.status) ? WTERMSIG(cause.status) : 0;
  failure.text = page.front();
  // What the others did is each node's own to tell.
  for (std::size_t i = 1; i < page.size() && !page[i].starts_with("  the others"); ++i) {
    failure.detail += page[i] + "\n";
  }
  link_->failed(failure);
}

void Agent::finish_if_all_ended() {
  if (alive_ > 0 || finishing_) return;
  // Followers alone, and nobody left on this node who could still fail first.
  const bool undecided = verdict_.cause() == nullptr && !other_cause_ && !job_failure_;
  if (undecided && !link_ && verdict_.cause_is_late() == Verdict::Next::kStop) stop_ranks(SIGTERM);
  if (!link_) {
    finish();
    return;
  }
  if (!link_over_) {
    if (!stopping_ && !verdict_.waits_for_cause()) {
      link_->done();  // and then on_all_done(), whenever the others are
    } else if (stopping_) {
      // The service names one first cause to all; without its word, ours stands.
      link_timer_.expires_after(kFarewell);
      link_timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) close_link();
      });
    }
    return;
  }
  if (helper_runs_) {
    close_link();
  } else {
    finish();
  }
}

// Our last word is said; the helper ends when its input closes, and sees to it that the others have
// heard theirs.
void Agent::close_link() {
  link_over_ = true;
  link_->close();
  if (!helper_runs_) {
    finish_if_all_ended();
    return;
  }
  link_timer_.expires_after(kFarewell);
  link_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) finish();
  });
}

void Agent::finish() {
  if (finishing_) return;
  finishing_ = true;
  timer_.cancel();
  link_timer_.cancel();
  if (helper_runs_) {
    Message kill;
    kill.kind = MessageKind::kSignal;
    kill.slot = kFirstHelperSlot;
    kill.number = SIGKILL;  // it keeps nothing that anybody still needs
    supervisor_.send(std::move(kill));
  }
  Message message;
  message.kind = MessageKind::kFinish;
  message.number = interrupts_ > 1 ? -1 : stopping_ ? 0 : static_cast<int>(kPatience.count());
  supervisor_.send(std::move(message));
}

void Agent::wait_for_signals() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    on_signal(signal);
    wait_for_signals();
  });
}

void Agent::on_signal(int signal) {
  if (signal == SIGTSTP) {
    suspend();
    return;
  }
  if (++interrupts_ > 1) {
    signal_ranks(SIGKILL);
    return;
  }
  // Ranks get SIGINT for Ctrl-C, as they would without dlrun: Python's KeyboardInterrupt.
  end_job({128 + signal, fmt::format("stopped by {} after {:.1f} s", signal_name(signal),
                                     std::chrono::duration<double>(Clock::now() - began_).count())},
          signal == SIGINT ? SIGINT : SIGTERM);
  finish_if_all_ended();
}

void Agent::suspend() {
  signal_ranks(SIGSTOP);
  supervisor_.flush();
  ::raise(SIGSTOP);  // returns once the shell says `fg` or `bg`
  signal_ranks(SIGCONT);
}

void Agent::on_reader_gone() {
  // As any program of a pipeline ends when nobody reads it any more, and without a word.
  end_job({128 + SIGPIPE, ""}, SIGTERM);
}

void Agent::on_supervisor_gone() {
  if (finished_) return;
  const int code = wait_for_warden();
  end_job({code == 0 ? 1 : code,
           fmt::format("the supervisor{}; all ranks were ended",
                       code > 128 ? fmt::format(" was killed by signal {} ({})", code - 128,
                                                signal_name(code - 128))
                                  : fmt::format(" ended with exit code {}", code))},
          SIGTERM);
  io_.stop();
}

// Waits until the warden has ended what the supervisor left; the supervisor's exit code.
int Agent::wait_for_warden() const {
  int status = 0;
  pid_t ended;
  do {
    ended = ::waitpid(warden_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) return 1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
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

std::vector<RankFacts> Agent::facts() const {
  std::vector<RankFacts> facts;
  for (const Rank& rank : ranks_) {
    RankFacts one;
    one.rank = rank_number(rank);
    one.pid = rank.pid;
    one.started = rank.pid > 0;
    one.ended = rank.ended;
    one.ran = ran(rank);
    one.end = rank.end;
    if (rank.err) one.stderr_tail = rank.err->tail();
    if (rank.out) one.stdout_tail = rank.out->tail();
    one.error_file = read_file(rank.error_file.get());
    facts.push_back(std::move(one));
  }
  return facts;
}

void Agent::say(const std::string& line) {
  err().write(fmt::format("dlrun: {}\n", line));
}

int Agent::report() {
  for (const Rank& rank : ranks_) {
    for (const RankOutput* output : {rank.out.get(), rank.err.get()}) {
      if (output != nullptr && !output->log_error().empty()) {
        say(fmt::format("the log of rank {} in {} is incomplete: {}", rank_number(rank),
                        options_.log_dir, output->log_error()));
      }
    }
  }
  if (other_cause_) {
    if (!other_cause_->text.empty()) say(other_cause_->text);
    return other_cause_->exit_code;
  }
  if (job_failure_) {
    say(job_failure_->text);
    for (std::string_view rest = job_failure_->detail; !rest.empty();) {
      const std::size_t end = rest.find('\n');
      say(std::string(rest.substr(0, end)));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    const std::string fate = fate_of_others(-1, facts());
    if (!fate.empty()) say(fmt::format("  on this node: {}", fate));
    if (job_failure_->signal != 0) return 128 + job_failure_->signal;
    return job_failure_->exit_code != 0 ? job_failure_->exit_code : 1;
  }
  const RankEnd* const cause = verdict_.cause();
  if (cause == nullptr) return 0;
  const std::vector<RankFacts> all = facts();
  const RankFacts& first = all.at(static_cast<std::size_t>(cause->rank - meeting_->first_rank));
  for (const std::string& line : failure_page(first, all, {plan_.host, meeting_->group_rank})) {
    say(line);
  }
  return cause->exit_code();
}

}  // namespace dl::launcher
