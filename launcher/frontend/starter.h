// Starter: starts an agent in this process or on another host, with the job's key.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "launcher/agent/agent_port.h"
#include "launcher/frontend/card_of.h"
#include "launcher/output/frame.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/plan/plan.h"
#include "launcher/process/warden/warden.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl::launcher {

// What a frontend gives to each of its agents. All references outlive the agent.
struct AgentStart {
  boost::asio::io_context& io;
  DiskThread& disk;
  FrameTaker& output;
  AgentEvents& events;
  AgentSettings settings;
  std::string key_file;  // --key-file; empty: not given
};

// Starts the agent of one node: in this process, or over ssh or srun. A remote agent gets plan, key
// and command on its standard input, never on a command line. Starting may continue after start()
// has returned; a failure then ends the job through `events`.
class Starter {
 public:
  virtual ~Starter() = default;
  // What the job's card says.
  virtual CardFacts card() const = 0;
  // To be called once. Throws Error.
  virtual std::unique_ptr<AgentOrders> start(AgentStart start) = 0;
};

// Starts the agent of this machine in this process.
class StartHere : public Starter {
 public:
  StartHere(const NodePlan& plan, WardenHandle warden) : plan_(plan), warden_(std::move(warden)) {}
  CardFacts card() const override { return card_of_node(plan_); }
  std::unique_ptr<AgentOrders> start(AgentStart start) override;

 private:
  const NodePlan& plan_;
  WardenHandle warden_;
};

// The job's key. One node: a fresh key. Several nodes: the key in `key_file`, else the
// environment's, else the user's own, ~/.config/dlrun/key. That file is made at its first use, and
// every node that shares the home directory has it. Throws Error with one sentence.
rendezvous::JobKey job_secret(int nnodes, const std::string& key_file);

}  // namespace dl::launcher
