#include "launcher/srun/srun_step.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "core/base/system/unique_fd.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/warden/warden_client.h"
#include "launcher/srun/srun_task.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using remote::AgentLine;

// SLURM ends the tasks of an srun that has ended. An agent that still runs after this time is given
// up.
constexpr std::chrono::seconds kTimeToEndStep{5};
// Time for srun to end and report the reason, after the first node's connection has ended. If that
// node has vanished, srun may wait for it for minutes.
constexpr std::chrono::seconds kTimeToSayWhy{2};
// Bytes of srun's output that are kept before the agents answer.
constexpr std::size_t kMostSaid = 2000;

class SrunStep {
 public:
  SrunStep(boost::asio::io_context& io, WardenClient& warden, std::vector<std::string> srun,
           std::size_t nodes)
      : warden_(warden),
        srun_(std::move(srun)),
        nodes_(nodes),
        key_(rendezvous::JobKey::generate()),
        listener_(rendezvous::Listener::bind()),
        port_(listener_.port()),
        frontend_(frontend_for_tasks(port_, key_)),
        acceptor_(std::move(listener_), key_, {.job = std::string(kSrunJob), .from = "dlrun"},
                  2 * nodes),
        door_(io, ::dup(acceptor_.poll_fd())),
        err_(io),
        timer_(io),
        say_why_(io) {
    for (const bool to_agent : {true, false}) {
      acceptor_.serve(std::string(purpose_of(to_agent)), rendezvous::kAnyGeneration,
                      [this, to_agent](rendezvous::Connection connection) {
                        take(to_agent, std::move(connection));
                      });
    }
    wait_for_agents();
  }

  void connect(std::size_t node, AgentLine::Events events) {
    nodes_[node].events = std::move(events);
    if (!is_started_) start();
    open_if_there(nodes_[node]);
  }

  void on_answered() { answered_ = true; }

  void kill(std::size_t node) {
    const Node& killed = nodes_[node];
    if (killed.is_open) ::shutdown(killed.from_agent.get(), SHUT_RDWR);
    // One task alone cannot be ended before it has connected.
    if ((node == 0 || !killed.is_open) && is_running()) warden_.signal_helper(slot_, SIGKILL);
  }

  void on_closed(std::size_t node) {
    if (node != 0 || !is_running()) return;
    say_why_.expires_after(kTimeToSayWhy);
    say_why_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      first_is_lost_ = true;
      nodes_.front().events.on_ended();
    });
  }

  // srun itself ends together with the line of the first node.
  bool has_ended(std::size_t node) const {
    const bool is_connection = node != 0 || first_is_lost_;
    return is_started_ && ((nodes_[node].is_open && is_connection) || !is_running());
  }

  std::string how_srun_ended() const {
    if (!not_started_.empty()) return not_started_;
    std::string words = said_.substr(0, said_.find_last_not_of("\r\n") + 1);
    for (std::size_t at; (at = words.find('\n')) != words.npos;) words.replace(at, 1, "; ");
    return fmt::format("srun {}{}{}", how_it_ended(*status_), words.empty() ? "" : ": ", words);
  }
  bool is_running() const { return is_started_ && !status_ && not_started_.empty(); }

 private:
  struct Node {
    AgentLine::Events events;
    UniqueFd to_agent, from_agent;
    bool is_open = false;
  };

  void start() {
    is_started_ = true;
    Pipe in = make_pipe();
    Pipe err = make_pipe();
    const std::string line = key_.hex() + "\n";
    if (::write(in.write.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw_errno(errno, "write the key for srun");
    }
    ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
    err_.assign(err.read.release());
    Helper helper;
    helper.path = srun_.front();
    helper.argv = srun_;
    helper.environment.push_back(
        fmt::format("{}={}", env::name_of(env::Var::kSrunFrontend), frontend_));
    helper.fds.emplace_back(std::move(in.read), STDIN_FILENO);
    helper.fds.emplace_back(open_null(), STDOUT_FILENO);
    helper.fds.emplace_back(std::move(err.write), STDERR_FILENO);
    slot_ = warden_.start_helper(std::move(helper), [this](const Message& news) { on_news(news); });
    read_said();
    rendezvous::prepare_to_prove();  // in the 20 ms that srun needs to start an agent
  }

  void wait_for_agents() {
    door_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      acceptor_.process();
      wait_for_agents();
    });
  }

  void take(bool to_agent, rendezvous::Connection connection) {
    const auto number = static_cast<std::size_t>(connection.peer.rank);
    if (connection.peer.rank < 0 || number >= nodes_.size()) return;
    Node& node = nodes_[number];
    UniqueFd& place = to_agent ? node.to_agent : node.from_agent;
    if (place) return;
    place = std::move(connection.fd);
    open_if_there(node);
  }

  static void open_if_there(Node& node) {
    if (node.is_open || !node.events.on_open || !node.to_agent || !node.from_agent) return;
    node.is_open = true;
    // The original stays here, for kill().
    node.events.on_open(duplicate(node.from_agent.get()), std::move(node.to_agent));
  }

  void on_news(const Message& news) {
    if (news.kind == MessageKind::kStarted) return;
    if (news.kind == MessageKind::kNotStarted) {
      not_started_ = fmt::format("{}: {}", srun_.front(), std::strerror(news.number));
    } else {
      status_ = news.number;
    }
    if (status_) {
      timer_.expires_after(kTimeToEndStep);
      timer_.async_wait([this](const boost::system::error_code& error) {
        for (std::size_t i = 0; !error && i < nodes_.size(); ++i) kill(i);
      });
    }
    read_said();
    for (const Node& node : nodes_) {
      if (node.events.on_ended) node.events.on_ended();
    }
  }

  // Output of srun, of slurmstepd, and of a dlrun without a connection.
  void read_said() {
    std::array<char, 4096> part;
    while (err_.is_open()) {
      const ssize_t n = ::read(err_.native_handle(), part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) {
        err_.close();
        break;
      }
      said_.append(part.data(), static_cast<std::size_t>(n));
    }
    for (std::size_t end; answered_ && (end = said_.find('\n')) != std::string::npos;) {
      const std::string line = said_.substr(0, end);
      said_.erase(0, end + 1);
      if (!line.empty()) nodes_.front().events.on_said(line);
    }
    if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
    if (!err_.is_open() || !is_running()) return;
    err_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (!error) read_said();
    });
  }

  WardenClient& warden_;
  std::vector<std::string> srun_;
  std::vector<Node> nodes_;
  rendezvous::JobKey key_;
  rendezvous::Listener listener_;
  std::uint16_t port_;
  std::string frontend_;  // of the tasks
  rendezvous::Acceptor acceptor_;
  stream_descriptor door_;
  stream_descriptor err_;
  std::string said_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer say_why_;
  std::uint32_t slot_ = 0;
  std::optional<int> status_;  // of srun, as waitpid() gives it
  std::string not_started_;
  bool is_started_ = false;
  bool answered_ = false;
  bool first_is_lost_ = false;
};

class SrunLine : public AgentLine {
 public:
  SrunLine(std::shared_ptr<SrunStep> step, std::size_t node, std::string host)
      : step_(std::move(step)), node_(node), host_(std::move(host)) {}

  void connect(Events events) override { step_->connect(node_, std::move(events)); }
  void on_answered() override { step_->on_answered(); }
  void on_closed() override { step_->on_closed(node_); }
  void kill() override { step_->kill(node_); }
  bool has_ended() const override { return step_->has_ended(node_); }
  bool ends_stream() const override { return false; }  // it is a connection of the agent's own
  std::string why_not_started(std::string_view) const override {
    return fmt::format("the dlrun of host {} has not answered: {}", host_, step_->how_srun_ended());
  }
  std::string how_it_was_lost() const override {
    return fmt::format(
        "host {} was lost: {}", host_,
        step_->is_running() ? "the connection to its dlrun ended" : step_->how_srun_ended());
  }

 private:
  std::shared_ptr<SrunStep> step_;  // shared by all lines: the last one that goes ends it
  std::size_t node_;
  std::string host_;
};

}  // namespace

remote::MakeLines lines_of_srun(std::vector<std::string> srun, std::vector<std::string> hosts) {
  return [srun = std::move(srun), hosts = std::move(hosts)](boost::asio::io_context& io,
                                                            WardenClient& warden) {
    const auto step = std::make_shared<SrunStep>(io, warden, srun, hosts.size());
    std::vector<std::unique_ptr<AgentLine>> lines;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      lines.push_back(std::make_unique<SrunLine>(step, i, hosts[i]));
    }
    return lines;
  };
}

}  // namespace dl::launcher
