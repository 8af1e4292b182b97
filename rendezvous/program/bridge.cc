#include "rendezvous/program/bridge.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel_posix.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/program/endpoint.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;
using namespace std::chrono_literals;

// A failure contains up to 40 KiB of its rank's output, and JSON may need six bytes for each byte.
constexpr std::size_t kLongestLine = 1 << 20;
// Shorter than a wait's patience, so that warnings while connecting are reported in JSON.
constexpr auto kConnectTurn = 4s;
// Time for the service to name the missing nodes, after the deadline has passed.
constexpr auto kTimeToAnswer = 5s;
// dlrun's exit code for a passed deadline.
constexpr int kExitTimeout = 124;
// Time for the service to end the stream. Cancelling the stream loses what was sent and not read
// yet, and the last message of a leaving node is worth a longer wait.
constexpr auto kFarewell = 500ms;
constexpr auto kFarewellOfALeaver = 3s;

std::string to_json_line(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  DL_CHECK(status.ok(), kInternal, "a message cannot be written as JSON: {}", status.ToString());
  return line + "\n";
}

}  // namespace

Bridge::Bridge(BridgeOptions options)
    : options_(std::move(options)),
      ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      standstill_(options_.silence.heartbeat_every(), options_.silence.dead_after / 10) {
  if (!ended_) throw_errno(errno, "eventfd");
  if (!options_.other_endpoints.empty()) {
    ways_ = options_.other_endpoints;
    ways_.insert(ways_.begin(), options_.endpoint);
  }
}

Bridge::~Bridge() {
  if (stream_ != nullptr) context_.TryCancel();
  if (receiver_.joinable()) receiver_.join();
}

int Bridge::run() {
  for (;;) {
    std::string line;
    const Input input = next_line(line);
    if (input == Input::kClosed) return end();
    try {
      if (input == Input::kLine && !handle_line(line)) return end();
    } catch (const Error& error) {
      put_error(name_of(error.kind()), error.what());
      return end();
    }
    if (input == Input::kLine) continue;

    std::array<pollfd, 2> entries{{{.fd = options_.in, .events = POLLIN, .revents = 0},
                                   {.fd = ended_.get(), .events = POLLIN, .revents = 0}}};
    Deadline until = Deadline::earlier(next_heartbeat_, join_by_);
    if (agent_) {
      until = Deadline::earlier(until, Deadline::after(options_.silence.heartbeat_every() / 2));
    }
    ::poll(entries.data(), entries.size(), until.poll_timeout());
    if (entries[1].revents != 0) return end();
    if (entries[0].revents != 0) {
      std::array<char, 4096> bytes;
      const ssize_t n = ::read(options_.in, bytes.data(), bytes.size());
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) input_closed_ = true;
      if (n > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(n));
    }
    if (!keep_time()) return end();
  }
}

Bridge::Input Bridge::next_line(std::string& line) {
  const std::size_t end = buffer_.find('\n');
  if (end != std::string::npos) {
    line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return Input::kLine;
  }
  if (buffer_.size() > kLongestLine) {
    put_error("parse", fmt::format("dlrun sent a line of more than {} bytes", kLongestLine));
    return Input::kClosed;
  }
  return input_closed_ ? Input::kClosed : Input::kNothing;
}

// Returns false if the service is gone.
bool Bridge::handle_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  pb::FromNode message;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &message);
  DL_CHECK(status.ok() && message.message_case() != pb::FromNode::MESSAGE_NOT_SET, kParse,
           "dlrun sent a line that is not a message: {}",
           status.ok() ? std::string("it names none") : status.ToString());
  if (message.has_join()) {
    join_by_ = Deadline::after(options_.timeout);
    host_ = message.join().host();
    if (stream_ == nullptr) connect(message.join(), join_by_);
    introduce(*message.mutable_join());
    const Lock lock(out_mutex_);
    joining_ = true;
    asked_ = false;
    last_waiting_.clear();
  }
  DL_CHECK(stream_ != nullptr, kParse, "dlrun must join before it sends anything else");
  if (!message.has_agent()) return send(message);
  pb::FromNode news;
  if (auto agent = agent_->on_word(message.agent().state(), Deadline::Clock::now())) {
    *news.mutable_agent() = *agent;
  }
  return !news.has_agent() || send(news);
}

// Adds what dlrun does not know.
void Bridge::introduce(pb::Join& join) const {
  join.set_service_address(service_address_);
  join.set_is_address_given(!join.address().empty());
  if (join.address().empty()) join.set_address(own_address_);
  join.set_serves(options_.serves);
  if (!options_.serves) return;
  for (const Address& address : all_addresses()) {
    if (!address.is_loopback()) join.add_host_addresses(address.host());
  }
}

// Ends with kAborted if dlrun, at the other end of the input, has died in the meantime.
Connection Bridge::connect_in_turns(const Hello& hello, Deadline deadline) {
  Patience patience;
  for (;;) {
    try {
      const Deadline turn = patience.until(Deadline::after(kConnectTurn));
      const std::vector<Endpoint> ways =
          ways_.empty() ? ways_to(options_.endpoint, Deadline::earlier(deadline, turn)) : ways_;
      if (ways.size() > 1) return connect_by_a_way(ways, hello, Deadline::earlier(deadline, turn));
      return connect_and_prove(options_.endpoint, hello, options_.key,
                               Deadline::earlier(deadline, turn),
                               {.hangup_fd = options_.in,
                                .is_turn = turn.left() < deadline.left(),
                                .goal = "the rendezvous"});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || deadline.has_passed()) {
        throw_error(error.kind(), "{}{}", error.what(),
                    wrong_host_text(options_.endpoint, options_.serves));
      }
    }
    if (patience.should_speak()) {
      pb::ToNode message;
      pb::Waiting* waiting = message.mutable_waiting();
      waiting->set_what("the rendezvous");
      waiting->set_seconds(static_cast<int>(patience.waited().count()));
      waiting->add_missing(options_.endpoint.text() +
                           wrong_host_text(options_.endpoint, options_.serves));
      put(message);
    }
  }
}

// If dlrun gave the addresses, sets options_.endpoint to the one at which this node reaches the
// service.
Connection Bridge::connect_by_a_way(const std::vector<Endpoint>& ways, const Hello& hello,
                                    Deadline deadline) {
  Way way = rendezvous::connect_by_a_way(
      ways, /*rank=*/-1,
      ways_.empty() ? fmt::format("the rendezvous at {}", options_.endpoint.text())
                    : "the rendezvous",
      hello, options_.key, deadline);
  if (ways_.empty()) return std::move(way.connection);
  options_.endpoint = std::move(way.endpoint);
  return std::move(way.connection);
}

void Bridge::connect(const pb::Join& join, Deadline deadline) {
  const Hello hello{
      .job = options_.job,
      .generation = kAnyGeneration,
      .purpose = std::string(kMembershipPurpose),
      .from = fmt::format("dlrun of host {} (pid {})", join.host(), join.pid()).substr(0, 255)};
  Connection connection = connect_in_turns(hello, deadline);
  const int fd = connection.fd.get();
  service_address_ = peer_address(fd).host();
  own_address_ = local_address(fd).host();
  stub_ = pb::Membership::NewStub(grpc::CreateCustomInsecureChannelFromFd(
      "dlrun-membership", connection.fd.release(), channel_arguments()));
  stream_ = stub_->Join(&context_);
  agent_pid_ = join.pid();
  agent_.emplace(AgentWatchOptions{.named_after = options_.silence.named_after(),
                                   .timeout = options_.agent_timeout,
                                   .is_stopped = [this] { return is_process_stopped(agent_pid_); }},
                 Deadline::Clock::now());
  {
    const Lock lock(out_mutex_);
    heard_ = Deadline::Clock::now();
    standstill_.look(heard_, time_suspended());
  }
  next_heartbeat_ = Deadline::after(options_.silence.heartbeat_every());
  receiver_ = make_thread("the membership", [this] { receive(); });
}

void Bridge::receive() {
  for (pb::ToNode message; stream_->Read(&message);) {
    look_at_clock();
    {
      const Lock lock(out_mutex_);
      heard_ = Deadline::Clock::now();
    }
    if (message.has_heartbeat()) continue;
    if (message.has_error()) {
      message.mutable_error()->set_text(with_standstill(message.error().text()));
    }
    if (message.has_generation()) {
      pb::Generation& generation = *message.mutable_generation();
      if (generation.store().empty()) {
        const std::string host = store_host(service_address_, generation.master_addr());
        generation.set_store(Endpoint{host, options_.endpoint.port}.text());
      }
    }
    has_met_ |= message.has_generation();
    const bool gathers = message.has_waiting() && message.waiting().what() == "nodes";
    if (options_.serves && gathers && !has_met_) {
      *message.mutable_waiting()->mutable_missing()->rbegin() += own_host_text(options_.endpoint);
    }
    put(message);
    std::string late;
    if (message.has_waiting()) {
      const Lock lock(out_mutex_);
      if (joining_ && asked_) late = late_text();
    }
    if (!late.empty()) put_error(name_of(ErrorKind::kTimeout), late);
  }
  const std::uint64_t one = 1;
  // An eventfd takes this write unless its count is about to overflow.
  [[maybe_unused]] const ssize_t written = ::write(ended_.get(), &one, sizeof one);
}

bool Bridge::send(const pb::FromNode& message) {
  return stream_->Write(message);
}

void Bridge::put(const pb::ToNode& message) {
  const Lock lock(out_mutex_);
  if (told_) return;
  if (message.has_generation()) {
    joining_ = false;
    running_ = true;
  }
  if (message.has_failed() || message.has_all_done()) joining_ = running_ = false;
  told_ = message.has_refused() || message.has_error();
  if (message.has_waiting()) {
    last_waiting_ = fmt::format("waiting for {}", fmt::join(message.waiting().missing(), ", "));
    if (joining_ && asked_) return;  // the error contains it
  }
  std::string line = to_json_line(message);
  std::string_view rest = line;
  while (!rest.empty() && !reader_gone_) {
    const ssize_t n = ::write(options_.out, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) reader_gone_ = true;
    if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Bridge::put_error(std::string_view kind, const std::string& text) {
  pb::ToNode message;
  message.mutable_error()->set_kind(std::string(kind));
  message.mutable_error()->set_text(text);
  put(message);
}

std::string Bridge::late_text() const {
  return fmt::format("the other nodes did not join within {} s{}{}", options_.timeout.count(),
                     last_waiting_.empty() ? "" : ": ", last_waiting_);
}

// Sends heartbeats, and checks silence on both sides and the deadline of a join. Returns false if
// this node's part is over.
bool Bridge::keep_time() {
  if (stream_ == nullptr) return true;
  look_at_clock();
  {
    const Lock lock(out_mutex_);
    if (reader_gone_ || told_) return false;
    silent_ = Deadline::Clock::now() - heard_ >= options_.silence.dead_after;
  }
  if (silent_ || !keep_time_of_join() || !watch_agent()) return false;
  if (!next_heartbeat_.has_passed()) return true;
  next_heartbeat_ = Deadline::after(options_.silence.heartbeat_every());
  pb::FromNode message;
  message.mutable_heartbeat();
  return send(message);
}

bool Bridge::keep_time_of_join() {
  bool joining = false;
  bool asked = false;
  std::string late;
  {
    const Lock lock(out_mutex_);
    joining = joining_;
    asked = asked_;
    if (join_by_.has_passed()) {
      asked_ = true;
      late = late_text();
    }
  }
  if (!joining) join_by_ = Deadline::never();
  if (!join_by_.has_passed()) return true;
  if (asked) {
    put_error(name_of(ErrorKind::kTimeout), late);
    return false;
  }
  // The last list of missing nodes may be a minute old, so ask again.
  join_by_ = Deadline::after(kTimeToAnswer);
  pb::FromNode message;
  message.mutable_who_is_missing();
  return send(message);
}

bool Bridge::watch_agent() {
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  {
    const Lock lock(out_mutex_);
    agent_->forgive(std::exchange(missed_, {}), now);
  }
  if (const std::optional<std::string> why = agent_->too_late(now)) return leave_for(*why);
  const std::optional<pb::Agent> news = agent_->on_time(now);
  if (!news) return true;
  pb::FromNode message;
  *message.mutable_agent() = *news;
  return send(message);
}

// Leaves the job. dlrun hears of it when it runs again, even if it is stopped now: its ranks have
// to end.
bool Bridge::leave_for(const std::string& why) {
  pb::FromNode message;
  message.mutable_leave()->set_reason(why);
  message.mutable_leave()->set_lost(true);
  message.mutable_leave()->set_exit_code(kExitTimeout);
  left_ = send(message);
  put_error(name_of(ErrorKind::kTimeout), "the other nodes were told to end: " + why);
  if (agent_->is_stopped()) ::kill(agent_pid_, SIGCONT);
  return false;
}

// Either thread may be the first to run again.
void Bridge::look_at_clock() {
  const Lock lock(out_mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  const Standstill::Span missed = standstill_.look(now, time_suspended());
  heard_ = std::min(now, heard_ + missed);
  missed_ += missed;
}

// Adds to an error about this node that it stood still, by its own clock.
std::string Bridge::with_standstill(std::string text) {
  const Lock lock(out_mutex_);
  const auto stood = standstill_.recent(Deadline::Clock::now(), options_.silence.standstill(),
                                        options_.silence.dead_after);
  if (!stood) return text;
  return fmt::format("this node stood still for {} s (stopped, or its machine was paused): {}",
                     stood->count(), text);
}

int Bridge::end() {
  if (stream_ != nullptr) {
    bool part_of_job = false;
    {
      const Lock lock(out_mutex_);
      part_of_job = (joining_ || running_) && !told_;
    }
    const bool leaves = input_closed_ && part_of_job;
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
    if (!input_closed_ && part_of_job) {
      const auto silence =
          std::chrono::round<std::chrono::seconds>(options_.silence.dead_after).count();
      put_error("connection",
                silent_
                    ? fmt::format("host {} and the rendezvous at {} lost each other: silent for "
                                  "{} s; is the network between them up, and does it run?",
                                  host_, options_.endpoint.text(), silence)
                    : with_standstill(fmt::format(
                          "host {} and the rendezvous at {} lost each other: their connection was "
                          "closed or reset; does the rendezvous run, and does something between "
                          "them end connections?",
                          host_, options_.endpoint.text())));
      log::debug("grpc: {}", status.error_message());
    }
    stream_.reset();
  }
  const Lock lock(out_mutex_);
  return told_ ? 1 : 0;
}

}  // namespace dl::rendezvous
