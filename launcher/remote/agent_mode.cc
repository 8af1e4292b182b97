#include "launcher/remote/remote.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "collectives/record/snapshot.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "core/base/version.h"
#include "launcher/agent/agent.h"
#include "launcher/bind/topology.h"
#include "launcher/cli/options.h"
#include "launcher/frontend/card_of.h"
#include "launcher/jobs/card/job_card.h"
#include "launcher/plan/apps.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/machine/gpus.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/torch_backend.h"
#include "launcher/pmi/which_mpi.h"
#include "launcher/preempt/save_requests.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/warden/job_signals.h"
#include "launcher/process/warden/warden.h"
#include "launcher/remote/frames/frame_writer.h"
#include "launcher/remote/frames/messages.h"
#include "launcher/remote/frames/rank_input.h"
#include "rendezvous/first_cause/restart_policy.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher::remote {
namespace {

using Clock = std::chrono::steady_clock;

// The longest wait for the frontend's next message before the agent has started anything.
constexpr std::chrono::minutes kPatience{10};
// A frontend that sends nothing for this time is gone: it sends Alive every two seconds.
constexpr std::chrono::seconds kFrontIsGone{10};
constexpr std::chrono::seconds kTick{1};

// The frontend's two streams, moved away from the numbers of standard input and output.
struct Streams {
  UniqueFd in;
  UniqueFd out;
};

Streams take_streams(int in, int out) {
  constexpr int kFirst = 256;  // above all numbers that children see
  Streams streams{UniqueFd(::fcntl(in, F_DUPFD_CLOEXEC, kFirst)),
                  UniqueFd(::fcntl(out, F_DUPFD_CLOEXEC, kFirst))};
  if (!streams.in || !streams.out) throw_errno(errno, "duplicating standard input and output");
  const UniqueFd null = open_null();
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  return streams;
}

// Opening: the first messages, before the event loop runs. Each one is waited for.
class Opening {
 public:
  explicit Opening(Streams streams) : streams_(std::move(streams)) {}

  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(streams_.out.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) ::_exit(1);  // the frontend is gone
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void say(const Value& value) const {
    const std::vector<std::uint8_t> frame = encode(value);
    write({reinterpret_cast<const char*>(frame.data()), frame.size()});
  }
  // Returns the next message of type T and skips others. Ends this process if the frontend is gone.
  template <typename T>
  T await() {
    const rendezvous::Deadline deadline = rendezvous::Deadline::after(kPatience);
    for (;;) {
      while (std::optional<Value> value = decoder_.next()) {
        if (T* const wanted = std::get_if<T>(&*value)) return std::move(*wanted);
        if (std::holds_alternative<Stop>(*value)) ::_exit(0);
      }
      pollfd ready{streams_.in.get(), POLLIN, 0};
      if (::poll(&ready, 1, deadline.poll_timeout()) == 0) ::_exit(1);
      std::array<std::uint8_t, 4096> part;
      const ssize_t n = ::read(streams_.in.get(), part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ::_exit(1);
      decoder_.feed(std::span(part).first(static_cast<std::size_t>(n)));
    }
  }

  int in() const { return streams_.in.get(); }
  Streams take_streams() { return std::move(streams_); }
  Decoder take_decoder() { return std::move(decoder_); }

 private:
  Streams streams_;
  Decoder decoder_{/*after_magic=*/false};
};

// A node's part, ready to run; an Error becomes a Refused.
struct Node {
  Options options;
  NodePlan plan;
  UniqueFd listener;  // node 0 of several
};

// Why this host cannot do what the frontend asks for.
struct Refusal {
  int exit_code;
  std::string text;
};

void enter(const Start& start) {
  for (const std::string& entry : start.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, /*overwrite=*/1);
  }
  if (::chdir(start.directory.c_str()) != 0) {
    throw Refusal{1, fmt::format("working directory {}: {}; it must be there on all hosts, or give "
                                 "another with --wdir",
                                 start.directory, std::strerror(errno))};
  }
  // For programs that read PWD, which their shell would set.
  ::setenv("PWD", start.directory.c_str(), /*overwrite=*/1);
}

// The endpoints at which other nodes may reach a port of this host.
std::vector<std::string> endpoints_at(std::uint16_t port) {
  std::vector<std::string> endpoints;
  for (const rendezvous::Address& address : rendezvous::host_addresses()) {
    endpoints.push_back(rendezvous::Endpoint{address.host(), port}.text());
  }
  return endpoints;
}

std::string option_value(const std::vector<std::string>& line, std::string_view name) {
  const auto found = std::ranges::find(line, name);
  return found == line.end() || found + 1 == line.end() ? "" : *(found + 1);
}

Node make_node(const Start& start, Opening& opening) {
  Node node;
  std::vector<std::string> line = start.options;
  std::vector<std::string> others;
  if (option_value(line, "--nnodes") != "1") {
    std::vector<std::string> endpoints;
    if (option_value(line, "--node-rank") == "0") {
      auto listening = rendezvous::Listener::bind({});
      const std::uint16_t port = listening.port();
      node.listener = listening.release();
      endpoints = endpoints_at(port);
      opening.say(Listening{endpoints});
      endpoints.resize(std::min<std::size_t>(endpoints.size(), 1));  // itself, by any of them
    } else {
      endpoints = opening.await<Meet>().endpoints;
    }
    if (endpoints.empty()) throw Refusal{1, "node 0 has no network address"};
    line.insert(line.begin(), {"--rdzv-endpoint", endpoints.front()});
    others.assign(endpoints.begin() + 1, endpoints.end());
  }
  if (start.programs.empty()) throw Refusal{1, "the frontend sent no program"};
  node.options = parse_agent_options(line, start.programs);
  std::vector<App>& apps = node.options.job.apps;
  for (std::size_t i = 0; i < apps.size(); ++i) {
    apps[i].is_here = std::ranges::find(start.runs, static_cast<int>(i)) != start.runs.end();
  }
  apply_process_options(node.options);
  Machine machine = this_machine();
  if (needs_gpus(node.options)) machine.gpus = gpus_to_give_out();
  if (needs_topology(node.options.where)) machine.topology = read_topology(machine.cpus);
  node.plan = make_plan(node.options, machine);
  node.plan.host = start.host;
  node.plan.awaits_lost_nodes = false;  // the frontend ends the job
  node.plan.job.other_endpoints = std::move(others);
  if (const Program* const bad = node.plan.bad_program()) {
    throw Refusal{bad->exit_code, bad->error};
  }
  node.plan.mpi = mpi_to_serve(node.options, node.plan.programs);
  for (std::size_t i = 0; i < apps.size(); ++i) {
    check_torch_backend(node.options.job, apps[i], node.plan.programs[i]);
  }
  return node;
}

class AgentMode : private AgentEvents {
 public:
  AgentMode(Node node, const Start& start, WardenHandle warden, Opening opening)
      : node_(std::move(node)),
        card_(card_of_agent(node_.plan)),
        streams_(opening.take_streams()),
        disk_(io_),
        writer_(io_, std::move(streams_.in), std::move(streams_.out), opening.take_decoder(),
                {.on_value = [this](const Value& value) { on_value(value); },
                 .on_closed = [this](const std::string&) { on_front_gone(); }}),
        agent_(io_, node_.plan,
               {.preempt_wait = start.preempt_wait < 0
                                    ? std::nullopt
                                    : std::optional(std::chrono::milliseconds(start.preempt_wait)),
                .log_dir = {},
                .progress_columns = start.progress_columns},
               rendezvous::JobKey::from_hex(start.key).to_memfd(), std::move(warden), disk_,
               writer_, static_cast<AgentEvents&>(*this)),
        signals_(io_, [this](int signal) { on_signal(signal); }),
        timer_(io_),
        save_requests_(node_.options.end.preempt_on_term, node_.options.end.preempt_on_usr2),
        restarts_(node_.options.end.max_restarts) {
    if (node_.listener) agent_.listen_with(std::move(node_.listener));
    if (node_.plan.node_rank == 0) {
      input_.emplace(io_, [this](std::uint32_t bytes) { writer_.send(InputRoom{bytes}); });
    }
  }

  int run() {
    watch_front();
    if (node_.plan.node_rank == 0) {  // one node says it for all
      for (const std::string& text : unserved_mpis(node_.options, node_.plan.programs)) {
        on_sentence(text);
      }
    }
    try {
      agent_.begin();
      io_.run();
    } catch (const Error& error) {
      writer_.send(Refused{1, error.what()});
    }
    const Verdict verdict = agent_.finish();
    send_files(verdict);
    writer_.send(Over{verdict, agent_.left_behind()});
    is_over_ = true;
    // No deadline: the frontend may read slowly, or be suspended.
    for (io_.restart(); writer_.unsent() > 0;) io_.run_one();
    return 0;
  }

 private:
  // Sends the files that the ranks of a generation have left, for the frontend's logs.
  void send_files(const Verdict& verdict) {
    const auto send = [this](int rank, std::string_view name, std::string bytes) {
      writer_.send(RankFile{attempt_, rank, std::string(name), std::move(bytes)});
    };
    for (auto& [rank, text] : agent_.error_files()) send(rank, "error.json", std::move(text));
    for (const RecorderCopy& copy : agent_.recorders(verdict)) {
      send(copy.memory->header.rank, collectives::record::kFileName,
           {reinterpret_cast<const char*>(copy.memory.get()), sizeof *copy.memory});
    }
  }

  void on_sentence(const std::string& line) override { writer_.send(Sentence{line}); }
  void on_attempt(int attempt, const std::vector<int>& ranks) override {
    attempt_ = attempt;
    card_.attempt_began(attempt, ranks);
    writer_.send(Attempt{attempt, ranks});
  }
  void on_rank(const RankNews& news) override {
    show_on(card_, news);
    writer_.send(news);
  }
  rendezvous::Restart on_verdict(const Verdict& verdict) override {
    rendezvous::Restart restart;
    if (verdict.agreed) {
      restart = *verdict.agreed;
    } else if (verdict.may_begin_again) {
      restart = restarts_.decide({.exit_code = verdict.exit_code, .ran = verdict.ran});
    }
    if (!restart.again) writer_.send(Decided{verdict});
    return restart;
  }
  void on_begins_again(const Verdict& verdict, const rendezvous::Restart& restart) override {
    send_files(verdict);
    writer_.send(BeginsAgain{verdict, restart.number, restart.most, restart.delay.count()});
  }
  void on_over() override { io_.stop(); }

  void on_value(const Value& value) {
    heard_ = Clock::now();
    if (std::holds_alternative<Alive>(value)) {
      writer_.send(Alive{});
    } else if (const auto* credit = std::get_if<Credit>(&value)) {
      writer_.give(credit->stream, credit->bytes);
    } else if (const auto* stop = std::get_if<Stop>(&value)) {
      card_.set_state(CardState::kEnding);
      agent_.stop({stop->exit_code, stop->text}, stop->signal);
    } else if (const auto* signal = std::get_if<SignalRanks>(&value)) {
      agent_.signal_ranks(signal->signal);
    } else if (const auto* save = std::get_if<Save>(&value)) {
      agent_.ask_to_save(save->why);
    } else if (const auto* input = std::get_if<Input>(&value)) {
      if (input_) input_->take(input->bytes);
    } else if (const auto* order = std::get_if<Order>(&value)) {
      on_order(order->what);
    }
  }

  void on_order(Order::What what) {
    switch (what) {
      case Order::What::kKillNow:
        agent_.kill_now();
        return;
      case Order::What::kSuspend:
        front_is_suspended_ = true;
        agent_.suspend();
        return;
      case Order::What::kResume:
        front_is_suspended_ = false;
        agent_.resume();
        return;
      case Order::What::kReport:
        agent_.report();
        return;
    }
  }

  // A user's signals go to the frontend, SLURM's signals go to each agent.
  void on_signal(int signal) {
    switch (save_requests_.take(signal, Clock::now())) {
      case SaveRequests::Is::kFirst:
        agent_.ask_to_save(signal_name(signal));
        return;
      case SaveRequests::Is::kRepeated:
        return;
      case SaveRequests::Is::kNone:
        break;
    }
    switch (node_.options.end.meaning_of(signal)) {
      case SignalMeaning::kReport:
        agent_.report();
        return;
      case SignalMeaning::kForward:
        agent_.signal_ranks(signal);
        return;
      case SignalMeaning::kSystem:
      case SignalMeaning::kSuspend:
        return;
      case SignalMeaning::kEndJob:
        end_for(signal);
        return;
    }
  }

  void end_for(int signal) {
    // A second signal asks for a faster end.
    if (std::exchange(interrupted_, true)) {
      agent_.kill_now();
      return;
    }
    agent_.stop({128 + signal, fmt::format("the dlrun of host {} was stopped by {}",
                                           node_.plan.host, signal_name(signal))},
                SIGTERM);
  }

  // The supervisor notices the end of this process, and ends the ranks.
  void on_front_gone() { ::_exit(is_over_ ? 0 : 1); }

  void watch_front() {
    timer_.expires_after(kTick);
    timer_.async_wait([this, asleep_from = Clock::now()](const boost::system::error_code& error) {
      if (error) return;
      // Time in which this process did not run does not count as the frontend's silence.
      const Clock::time_point now = Clock::now();
      const Clock::duration late = now - asleep_from - kTick;
      if (late > kTick) heard_ = std::min(now, heard_ + late);
      if (front_is_suspended_) heard_ = now;
      if (now - heard_ >= kFrontIsGone) on_front_gone();
      watch_front();
    });
  }

  Node node_;
  JobCard card_;
  Streams streams_;
  boost::asio::io_context io_{1};
  DiskThread disk_;
  FrameWriter writer_;
  Agent agent_;
  std::optional<RankInput> input_;  // node 0
  JobSignals signals_;
  boost::asio::steady_timer timer_;
  SaveRequests save_requests_;
  rendezvous::RestartPolicy restarts_;
  Clock::time_point heard_ = Clock::now();
  int attempt_ = 0;
  bool front_is_suspended_ = false;
  bool interrupted_ = false;
  bool is_over_ = false;
};

}  // namespace

int run_agent(CommandLine line, UniqueFd in, UniqueFd out) {
  Opening opening(take_streams(in ? in.get() : STDIN_FILENO, out ? out.get() : STDOUT_FILENO));
  in.reset();
  out.reset();
  opening.write(kMagic);
  opening.say(Hello{.protocol = kProtocolVersion, .version = std::string(kVersion)});
  Start start = opening.await<Start>();
  try {
    enter(start);
    Node node = make_node(start, opening);
    const int ranks = node.plan.local_world_size();
    const rlimit open_files =
        raise_descriptor_limit(descriptors_for(ranks, /*with_logs=*/false), ranks, kHighestRankFd);
    JobSignals::block_signals();
    WardenHandle warden =
        start_warden(programs_to_start(node.plan, open_files), line, opening.in());
    return AgentMode(std::move(node), start, std::move(warden), std::move(opening)).run();
  } catch (const Refusal& refusal) {
    opening.say(Refused{refusal.exit_code, refusal.text});
  } catch (const Error& error) {
    opening.say(
        Refused{error.kind() == ErrorKind::kInvalidArgument ? kExitUsage : 1, error.what()});
  }
  return 0;
}

}  // namespace dl::launcher::remote
