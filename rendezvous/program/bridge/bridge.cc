#include "rendezvous/program/bridge/bridge.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel_posix.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/thread.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/program/endpoint.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;
using namespace std::chrono_literals;

// Time for the service to name the missing nodes, after the deadline has passed.
constexpr auto kTimeToAnswer = 5s;
// dlrun's exit code for a passed deadline.
constexpr int kExitTimeout = 124;
// Time for the service to end the stream. Cancelling the stream instead loses messages that were
// sent but not read yet. The last message of a node that leaves is worth a longer wait.
constexpr auto kFarewell = 500ms;
constexpr auto kFarewellOfALeaver = 3s;

}  // namespace

Bridge::Bridge(BridgeOptions options)
    : options_(std::move(options)),
      input_(options_.in),
      output_(options_.out, options_.timeout),
      way_(options_, output_),
      silence_(options_.silence),
      ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ended_) throw_errno(errno, "eventfd");
}

Bridge::~Bridge() {
  if (stream_ != nullptr) context_.TryCancel();
  if (receiver_.joinable()) receiver_.join();
}

int Bridge::run() {
  for (;;) {
    std::string line;
    const BridgeInput::State input = input_.next(line);
    if (input == BridgeInput::State::kTooLong) {
      output_.put_error("parse", fmt::format("dlrun sent a line of more than {} bytes",
                                             BridgeInput::kLongestLine));
      return end();
    }
    if (input == BridgeInput::State::kClosed) return end();
    try {
      if (input == BridgeInput::State::kLine && !handle_line(line)) return end();
    } catch (const Error& error) {
      output_.put_error(name_of(error.kind()), error.what());
      return end();
    }
    if (input == BridgeInput::State::kLine) continue;

    std::array<pollfd, 2> entries{{{.fd = input_.fd(), .events = POLLIN, .revents = 0},
                                   {.fd = ended_.get(), .events = POLLIN, .revents = 0}}};
    Deadline until = Deadline::earlier(next_heartbeat_, join_by_);
    if (agent_) {
      until = Deadline::earlier(until, Deadline::after(options_.silence.heartbeat_every() / 2));
    }
    ::poll(entries.data(), entries.size(), until.poll_timeout());
    if (entries[1].revents != 0) return end();
    if (entries[0].revents != 0) input_.read();
    if (!keep_time()) return end();
  }
}

// Returns false if the service is gone.
bool Bridge::handle_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  pb::FromNode message;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &message);
  DL_CHECK(status.ok() && message.message_case() != pb::FromNode::MESSAGE_NOT_SET, kParse,
           "dlrun sent a line that is not a message: {}",
           status.ok() ? std::string("it has no message in it") : status.ToString());
  if (message.has_join()) {
    join_by_ = Deadline::after(options_.timeout);
    host_ = message.join().host();
    if (stream_ == nullptr) connect(message.join(), join_by_);
    introduce(*message.mutable_join());
    output_.begin_join();
  }
  DL_CHECK(stream_ != nullptr, kParse, "dlrun must join before it sends anything else");
  if (!message.has_agent()) return send(message);
  pb::FromNode news;
  if (auto agent = agent_->on_word(message.agent().state(), Deadline::Clock::now())) {
    *news.mutable_agent() = *agent;
  }
  pb::ToNode answer;  // so that dlrun knows that this process runs
  answer.mutable_heartbeat();
  output_.put(answer);
  return !news.has_agent() || send(news);
}

// Adds the fields of `join` that dlrun does not know.
void Bridge::introduce(pb::Join& join) const {
  join.set_service_address(way_.service_address());
  join.set_is_address_given(!join.address().empty());
  if (join.address().empty()) join.set_address(way_.own_address());
  join.set_serves(options_.serves);
  if (!options_.serves) return;
  for (const Address& address : all_addresses()) {
    if (!address.is_loopback()) join.add_host_addresses(address.host());
  }
}

void Bridge::connect(const pb::Join& join, Deadline deadline) {
  const Hello hello{
      .job = options_.job,
      .generation = kAnyGeneration,
      .purpose = std::string(kMembershipPurpose),
      .from = fmt::format("dlrun of host {} (pid {})", join.host(), join.pid()).substr(0, 255)};
  Connection connection = way_.connect(hello, deadline);
  stub_ = pb::Membership::NewStub(grpc::CreateCustomInsecureChannelFromFd(
      "dlrun-membership", connection.fd.release(), channel_arguments()));
  stream_ = stub_->Join(&context_);
  agent_pid_ = join.pid();
  agent_.emplace(AgentWatchOptions{.named_after = options_.silence.named_after(),
                                   .timeout = options_.agent_timeout,
                                   .is_stopped = [this] { return is_process_stopped(agent_pid_); }},
                 Deadline::Clock::now());
  silence_.begin();
  next_heartbeat_ = Deadline::after(options_.silence.heartbeat_every());
  receiver_ = make_thread("the membership", [this] { receive(); });
}

void Bridge::receive() {
  for (pb::ToNode message; stream_->Read(&message);) {
    silence_.on_message();
    if (message.has_heartbeat()) continue;
    if (message.has_error()) {
      message.mutable_error()->set_text(silence_.with_standstill(message.error().text()));
    }
    if (message.has_generation()) {
      pb::Generation& generation = *message.mutable_generation();
      if (generation.store().empty()) {
        const std::string host = store_host(way_.service_address(), generation.master_addr());
        generation.set_store(Endpoint{host, way_.endpoint().port}.text());
      }
    }
    has_met_ |= message.has_generation();
    const bool gathers = message.has_waiting() && message.waiting().what() == "nodes";
    if (options_.serves && gathers && !has_met_) {
      *message.mutable_waiting()->mutable_missing()->rbegin() += own_host_text(way_.endpoint());
    }
    output_.put(message);
    if (message.has_waiting()) output_.on_missing_named();
  }
  const std::uint64_t one = 1;
  // An eventfd takes this write unless its count is about to overflow.
  [[maybe_unused]] const ssize_t written = ::write(ended_.get(), &one, sizeof one);
}

bool Bridge::send(const pb::FromNode& message) {
  return stream_->Write(message);
}

// Sends heartbeats, and checks silence on both sides and the deadline of a join. Returns false if
// this node's part is over.
bool Bridge::keep_time() {
  if (stream_ == nullptr) return true;
  silence_.look();
  if (output_.is_over()) return false;
  silent_ = silence_.is_too_long();
  if (silent_ || !keep_time_of_join() || !watch_agent()) return false;
  if (!next_heartbeat_.has_passed()) return true;
  next_heartbeat_ = Deadline::after(options_.silence.heartbeat_every());
  pb::FromNode message;
  message.mutable_heartbeat();
  return send(message);
}

bool Bridge::keep_time_of_join() {
  if (!output_.is_joining()) join_by_ = Deadline::never();
  if (!join_by_.has_passed()) return true;
  if (output_.end_late_join()) return false;
  // The last list of missing nodes may be a minute old, so ask again.
  join_by_ = Deadline::after(kTimeToAnswer);
  pb::FromNode message;
  message.mutable_who_is_missing();
  return send(message);
}

bool Bridge::watch_agent() {
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  agent_->forgive(silence_.take_missed(), now);
  if (const std::optional<std::string> why = agent_->too_late(now)) return leave_for(*why);
  const std::optional<pb::Agent> news = agent_->on_time(now);
  if (!news) return true;
  pb::FromNode message;
  *message.mutable_agent() = *news;
  return send(message);
}

// Leaves the job, and tells dlrun, even if dlrun is stopped now: when it runs again, it must end
// its ranks.
bool Bridge::leave_for(const std::string& why) {
  pb::FromNode message;
  message.mutable_leave()->set_reason(why);
  message.mutable_leave()->set_lost(true);
  message.mutable_leave()->set_exit_code(kExitTimeout);
  left_ = send(message);
  output_.put_error(name_of(ErrorKind::kTimeout), "the other nodes were told to end: " + why);
  if (agent_->is_stopped()) ::kill(agent_pid_, SIGCONT);
  return false;
}

// Why the connection to the service ended although neither dlrun nor the service has ended it.
std::string Bridge::lost_text() const {
  const std::string endpoint = way_.endpoint().text();
  if (silent_) {
    const auto silence =
        std::chrono::round<std::chrono::seconds>(options_.silence.dead_after).count();
    return fmt::format(
        "host {} and the rendezvous at {} lost each other: silent for {} s; is the network between "
        "them up, and does it run?",
        host_, endpoint, silence);
  }
  return silence_.with_standstill(fmt::format(
      "host {} and the rendezvous at {} lost each other: their connection was closed or reset; "
      "does the rendezvous run, and does something between them end connections?",
      host_, endpoint));
}

int Bridge::end() {
  if (stream_ != nullptr) {
    const bool part_of_job = output_.is_part_of_job();
    const bool leaves = input_.is_closed() && part_of_job;
    if (leaves) {
      pb::FromNode message;
      message.mutable_leave()->set_reason("its dlrun has ended");
      message.mutable_leave()->set_lost(true);
      send(message);
    }
    // After an orderly end the service ends the stream too; otherwise do not wait.
    pollfd entry{.fd = ended_.get(), .events = POLLIN, .revents = 0};
    stream_->WritesDone();
    const Deadline farewell = Deadline::after(leaves || left_ ? kFarewellOfALeaver : kFarewell);
    if (!silent_) ::poll(&entry, 1, farewell.poll_timeout());
    context_.TryCancel();
    receiver_.join();
    const grpc::Status status = stream_->Finish();
    if (!input_.is_closed() && part_of_job) {
      output_.put_error("connection", lost_text());
      log::debug("grpc: {}", status.error_message());
    }
    stream_.reset();
  }
  return output_.has_told() ? 1 : 0;
}

}  // namespace dl::rendezvous
