#include "launcher/nodes/node_link.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"
#include "launcher/process/start/rank_files.h"
#include "rendezvous/rank_numbers.h"

namespace dl::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using nlohmann::json;

// The most bytes of a program's line that are sent: a message has at most 1 MiB, and JSON may write
// six bytes for one.
constexpr std::size_t kLongestLine = 64 << 10;

constexpr std::chrono::seconds kBeatEvery{1};

std::string one_line(const char* name, const json& fields) {
  json message = json::object();
  message[name] = fields;
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

const char* word_of_mpi(const NodePlan& plan) {
  if (plan.mpi == Mpi::kPmix) return "PMIX";
  return plan.job.started.mpi == Mpi::kNone ? "NONE" : "ANY";
}

Meeting read_generation(const json& generation) {
  Meeting meeting;
  meeting.generation = generation.at("number").get<std::uint64_t>();
  meeting.world_size = generation.at("world_size").get<int>();
  meeting.group_rank = generation.at("group_rank").get<int>();
  meeting.master_addr = generation.at("master_addr").get<std::string>();
  meeting.met_at = generation.value("met_at", std::vector<std::string>());
  meeting.master_port = generation.at("master_port").get<int>();
  meeting.store = generation.at("store").get<std::string>();
  // Node 0 has put it into its node_id, see join().
  const json& members = generation.at("members");
  const std::string id = members.at(0).at("node_id").get<std::string>();
  meeting.run = id.substr(id.rfind('/') + 1);
  const auto by = generation.value("rank_by", "SLOT") == "NODE" ? rendezvous::RankBy::kNode
                                                                : rendezvous::RankBy::kSlot;
  meeting.serves_pmix = generation.value("mpi", "ANY") == "PMIX";
  std::vector<int> slots;
  for (const json& member : members) slots.push_back(member.at("slots").get<int>());
  meeting.ranks =
      rendezvous::number_ranks(slots, by).at(static_cast<std::size_t>(meeting.group_rank));
  meeting.own_addr =
      members.at(static_cast<std::size_t>(meeting.group_rank)).value("address", std::string());
  return meeting;
}

JobFailure read_failure(const json& failed) {
  JobFailure failure;
  failure.rank = failed.at("rank").get<int>();
  failure.local_rank = failed.at("local_rank").get<int>();
  failure.pid = failed.at("pid").get<int>();
  failure.exit_code = failed.at("exit_code").get<int>();
  failure.signal = failed.at("signal").get<int>();
  failure.text = failed.at("text").get<std::string>();
  failure.detail = failed.at("detail").get<std::string>();
  failure.group_rank = failed.at("group_rank").get<int>();
  failure.host = failed.at("host").get<std::string>();
  failure.node_lost = failed.at("node_lost").get<bool>();
  failure.restart.again = failed.at("again").get<bool>();
  failure.restart.delay = std::chrono::milliseconds(failed.at("delay_ms").get<int>());
  failure.restart.number = failed.at("restart").get<int>();
  failure.restart.most = failed.at("max_restarts").get<int>();
  return failure;
}

}  // namespace

NodeLink::NodeLink(boost::asio::io_context& io, NodeEvents events)
    : events_(std::move(events)), to_(io), from_(io), beat_(io), helper_(kBeatEvery) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  helper_in_ = std::move(in.read);
  helper_out_ = std::move(out.write);
  ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  to_.assign(in.write.release());
  from_.assign(out.read.release());
  wait_for_lines();
}

namespace {

// "train", or "-n 1 server : -n 3 train" for several programs.
std::string of_programs(const NodePlan& plan,
                        std::string (*text_of)(const std::vector<std::string>& words)) {
  std::string text;
  for (const App& app : plan.job.started.apps) {
    text += text.empty() ? "" : " : ";
    if (plan.job.started.apps.size() > 1) text += fmt::format("-n {} ", app.np.value_or(0));
    text += text_of(app.program);
  }
  return text;
}

}  // namespace

void NodeLink::join(const NodePlan& plan, int node_rank, int master_port) {
  send(one_line("join",
                {{"node_id", fmt::format("{}/{}/{}", plan.job.name, node_rank, plan.job.run)},
                 {"host", plan.host},
                 {"address", plan.meet.local_addr},
                 {"slots", plan.local_world_size()},
                 {"node_rank", node_rank},
                 {"nnodes", plan.job.nnodes},
                 {"rank_by", plan.job.rank_by == rendezvous::RankBy::kNode ? "NODE" : "SLOT"},
                 {"on_failure", plan.job.end.keeps_others() ? "KEEP" : "STOP"},
                 {"mpi", word_of_mpi(plan)},
                 {"np", plan.job.started.np.value_or(0)},
                 {"master_port", master_port},
                 {"pid", ::getpid()},
                 {"program", of_programs(plan, base_name_of)},
                 {"line", of_programs(plan, line_of).substr(0, kLongestLine)},
                 {"named", plan.job.named},
                 {"max_restarts", plan.job.end.max_restarts}}));
  beat();
}

// A helper that does not read needs no further beat.
void NodeLink::beat() {
  if (!to_.is_open()) return;
  if (unsent_.empty()) say_state("TURNS");
  read_some();  // an answer that came while dlrun stood still
  const HelperWatch::News news = helper_.look(HelperWatch::Clock::now());
  if (news != HelperWatch::News::kNone && events_.on_helper) events_.on_helper(news);
  beat_.expires_after(kBeatEvery);
  beat_.async_wait([this](const boost::system::error_code& error) {
    if (!error) beat();
  });
}

void NodeLink::say_state(const char* state) {
  send(one_line("agent", {{"state", state}}));
}

void NodeLink::ended(const rendezvous::RankEnd& end, int local_rank) {
  json fields = {{"rank", end.rank}, {"pid", end.pid}, {"text", end.text}, {"detail", end.detail}};
  if (!end.failed()) {
    send(one_line("finished", fields));
    return;
  }
  fields["local_rank"] = local_rank;
  fields["exit_code"] = WIFSIGNALED(end.status) ? 0 : end.exit_code();
  fields["signal"] = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
  fields["lost_peer"] = end.lost_peer;
  if (end.follows) {
    const rendezvous::Cause& cause = end.follows->cause;
    fields["follows"] = {{"blame", rendezvous::name_of(cause.blame)},
                         {"rank", cause.rank},
                         {"found_by", cause.found_by},
                         {"operation", cause.operation},
                         {"text", cause.text},
                         {"call", end.follows->call}};
  }
  send(one_line("failed", fields));
}

void NodeLink::waits(int rank, const rendezvous::Waiting& waiting) {
  send(one_line("waits",
                {{"rank", rank}, {"for_rank", waiting.rank}, {"operation", waiting.operation}}));
}

void NodeLink::goes_on(int rank) {
  send(one_line("goes_on", {{"rank", rank}}));
}

void NodeLink::preempt(const std::string& why) {
  send(one_line("preempt", {{"why", why}}));
}

void NodeLink::called(std::uint64_t calls) {
  send(one_line("called", {{"calls", calls}}));
}

void NodeLink::done() {
  send(one_line("done", json::object()));
}

void NodeLink::leave(const std::string& reason, int exit_code) {
  json fields = json::object();
  fields["reason"] = reason;
  fields["exit_code"] = exit_code;
  send(one_line("leave", fields));
}

void NodeLink::close() {
  beat_.cancel();
  boost::system::error_code ignored;
  [[maybe_unused]] const boost::system::error_code same = to_.close(ignored);
}

void NodeLink::send(const std::string& line) {
  if (!to_.is_open()) return;
  unsent_ += line;
  if (!waits_) write_some();
}

void NodeLink::write_some() {
  while (!unsent_.empty() && to_.is_open()) {
    const ssize_t n = ::write(to_.native_handle(), unsent_.data(), unsent_.size());
    if (n >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      waits_ = true;
      to_.async_wait(stream_descriptor::wait_write, [this](const boost::system::error_code& error) {
        waits_ = false;
        if (!error) write_some();
      });
      return;
    } else if (errno != EINTR) {
      unsent_.clear();  // the helper has ended, which its supervisor tells
    }
  }
}

void NodeLink::wait_for_lines() {
  from_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error && read_some() != 0) wait_for_lines();
  });
}

void NodeLink::read_rest() {
  while (read_some() > 0) {
  }
}

ssize_t NodeLink::read_some() {
  char part[4096];
  ssize_t n = 0;
  do {
    n = ::read(from_.native_handle(), part, sizeof part);
  } while (n < 0 && errno == EINTR);
  if (n > 0) unread_.append(part, static_cast<std::size_t>(n));
  for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    take(line);
  }
  return n;
}

void NodeLink::take(const std::string& line) {
  try {
    const json message = json::parse(line);
    if (message.contains("generation")) {
      events_.on_generation(read_generation(message["generation"]));
    } else if (message.contains("failed")) {
      events_.on_failed(read_failure(message["failed"]));
    } else if (message.contains("all_done")) {
      events_.on_all_done();
    } else if (message.contains("look")) {
      const json& look = message["look"];
      events_.on_question(
          {.rank = look.at("rank").get<int>(),
           .patience = std::chrono::milliseconds(look.at("milliseconds").get<int>())});
    } else if (message.contains("preempt")) {
      events_.on_preempt(message["preempt"].at("why").get<std::string>());
    } else if (message.contains("checkpoint")) {
      // A 64-bit number is a string in Protobuf's JSON.
      events_.on_checkpoint(std::stoull(message["checkpoint"].at("call").get<std::string>()));
    } else if (message.contains("refused")) {
      events_.on_error("refused", message["refused"].at("reason").get<std::string>());
    } else if (message.contains("error")) {
      events_.on_error(message["error"].at("kind").get<std::string>(),
                       message["error"].at("text").get<std::string>());
    } else if (message.contains("heartbeat")) {
      helper_.answered(HelperWatch::Clock::now());
    } else if (message.contains("notice")) {
      events_.on_line(message["notice"].at("text").get<std::string>());
    } else if (message.contains("waiting")) {
      const json& waiting = message["waiting"];
      events_.on_line(
          fmt::format("waiting for {} for {} s; missing: {}", waiting.at("what").get<std::string>(),
                      waiting.at("seconds").get<int>(),
                      fmt::join(waiting.at("missing").get<std::vector<std::string>>(), ", ")));
    }
  } catch (const json::exception& error) {
    events_.on_error(
        "parse", fmt::format("dlrun-rendezvous sent a line that is no message: {}", error.what()));
  }
}

}  // namespace dl::launcher
