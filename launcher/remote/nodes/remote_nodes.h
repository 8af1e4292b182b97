// RemoteNodes: all nodes of a job whose agents are on other hosts, as the frontend sees them. It
// starts an agent on each host, tells the other nodes the endpoints of node 0, passes orders on,
// and merges what the agents send.
//
//   dlrun (frontend) ── warden ── ssh ······ sshd ── dlrun (agent) ── warden ── supervisor ── ranks
//
// When an agent's connection (agent_line.h) ends, the agent ends with all that it has started. So
// nothing is left if dlrun or ssh is killed, or a cable is cut.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent_port.h"
#include "launcher/frontend/starter.h"
#include "launcher/plan/plan.h"
#include "launcher/process/input_pump.h"
#include "launcher/process/warden/warden_client.h"
#include "launcher/remote/agent_line.h"
#include "launcher/remote/nodes/heartbeat.h"
#include "launcher/remote/nodes/host_starts.h"
#include "launcher/remote/nodes/job_verdict.h"
#include "launcher/remote/nodes/remote_output.h"
#include "launcher/remote/ssh/remote_host.h"

namespace dl::launcher::remote {

// Makes a line to the agent of each node. Both references outlive the lines.
using MakeLines =
    std::function<std::vector<std::unique_ptr<AgentLine>>(boost::asio::io_context&, WardenClient&)>;

struct RemoteJob {
  JobPlan plan;  // with one host for each node
  MakeLines lines;
  std::string dlrun;                       // the path of this program
  std::vector<Start> starts;               // of each node
  std::chrono::milliseconds join_timeout;  // for all agents to answer
  // The frontend sends Alive every `beat`.
  std::chrono::milliseconds beat{std::chrono::seconds(2)};
  // Once the job ends, an agent that sends nothing for this time is lost. An agent may take nearly
  // this long for processes that SIGKILL does not end.
  std::chrono::milliseconds most_silence{std::chrono::seconds(45)};
};

class RemoteNodes : public AgentOrders, private RemoteHostEvents {
 public:
  RemoteNodes(AgentStart start, RemoteJob job, WardenHandle warden);

  void begin() override;
  void stop(StopCause cause, int signal) override;
  void kill_now() override;
  void signal_ranks(int signal) override;
  void ask_to_save(const std::string& why) override;
  void suspend() override;
  void resume() override;
  void report() override;

  Verdict finish() override;
  std::vector<std::string> left_behind() const override { return left_; }
  // Files are kept as soon as an agent sends them.
  void keep_files(const Verdict& verdict) override;
  NodeOutput* node_output() override { return nullptr; }

 private:
  void on_answered(RemoteHost& host) override;
  void on_listening(RemoteHost& host, const std::vector<std::string>& endpoints) override;
  void on_sentence(RemoteHost& host, const std::string& text) override;
  void on_line_said(const std::string& text) override { events_.on_sentence(text); }
  void on_attempt(RemoteHost& host, const Attempt& attempt) override;
  void on_rank(const RankNews& news) override { events_.on_rank(news); }
  void on_output(RemoteHost& host, const Output& output) override { output_.take(host, output); }
  void on_decided(RemoteHost& host, Verdict verdict) override;
  void on_begins_again(RemoteHost& host, BeginsAgain news) override;
  void on_failed(RemoteHost& host, int exit_code, const std::string& text) override;
  void on_file(const RankFile& file) override { output_.keep(file); }
  void on_input_room(std::uint32_t bytes) override { input_.give(bytes); }
  void on_over(RemoteHost& host, const Over& over) override;
  void on_gone(RemoteHost& host) override;

  void end_job(Verdict verdict, int signal);
  void end_undecided();
  void name_cause();
  std::vector<RemoteHost*> undecided() const;
  void say_that_all_begin_again();
  void check_over();
  void end_without_hosts();
  void say_over();

  boost::asio::io_context& io_;
  RemoteJob job_;
  AgentEvents& events_;
  WardenClient warden_;
  RemoteOutput output_;
  InputPump input_;  // for rank 0
  bool gives_input_ = false;
  RemoteHosts hosts_;
  HostStarts starts_;
  Heartbeat heartbeat_;
  JobVerdict verdict_;
  std::vector<std::string> endpoints_;  // once node 0 listens
  std::vector<std::string> said_;       // sentences of nodes, so that each is shown once
  std::vector<std::string> left_;
  std::set<int> decided_;  // the nodes that know how the job ends
  boost::asio::steady_timer decided_timer_;
  boost::asio::steady_timer farewell_timer_;
  std::optional<std::pair<std::string, int>> stop_;  // why and by which signal
  std::optional<std::string> to_save_;               // the reason, until node 0 has answered
  int attempt_ = 0;
  int kill_requests_ = 0;
  bool is_over_ = false;
};

// Starts the agents of a job on its hosts.
class StartOnHosts : public Starter {
 public:
  StartOnHosts(RemoteJob job, WardenHandle warden)
      : job_(std::move(job)), warden_(std::move(warden)) {}
  CardFacts card() const override { return card_of_hosts(job_.plan); }
  std::unique_ptr<AgentOrders> start(AgentStart start) override {
    return std::make_unique<RemoteNodes>(std::move(start), std::move(job_), std::move(warden_));
  }

 private:
  RemoteJob job_;
  WardenHandle warden_;
};

}  // namespace dl::launcher::remote
