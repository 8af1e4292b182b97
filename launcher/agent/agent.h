// Agent: runs one node's part of a job: it takes the frontend's orders and the events of its parts,
// and begins one generation after the other.
//
//   Gathering    how the ranks meet: a store on one node, the other nodes on several
//   Generation   the ranks of one generation
//   Overseers    warden and supervisor
//   Saving       requests to save and end
//   Ending       how a generation ends; Cleanup: the processes that are left of it
//   Outcome      why it ended, and the verdict; Evidence: files, recorders, what a rank does
//
// Everything runs on the event loop's thread. On one node the ranks start at once; on several
// nodes, the nodes meet first.
#pragma once

#include <boost/asio/io_context.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/agent/agent_port.h"
#include "launcher/agent/ending/alarm.h"
#include "launcher/agent/ending/cleanup.h"
#include "launcher/agent/ending/ending.h"
#include "launcher/agent/ending/overseers.h"
#include "launcher/agent/evidence/evidence.h"
#include "launcher/agent/gathering.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/agent/outcome.h"
#include "launcher/output/node_output.h"
#include "launcher/plan/plan.h"
#include "launcher/preempt/saving.h"

namespace dl::launcher {

class Agent : public AgentOrders {
 public:
  // `key`: a sealed memfd with the job's key. All references must outlive the agent.
  Agent(boost::asio::io_context& io, const NodePlan& plan, AgentSettings settings, UniqueFd key,
        WardenHandle warden, DiskThread& disk, FrameTaker& frontend, AgentEvents& events);

  void begin() override;
  // Also tells the other nodes why the job ends.
  void stop(StopCause cause, int signal) override;
  void kill_now() override { ending_.kill_now(); }
  void signal_ranks(int signal) override;
  void ask_to_save(const std::string& why) override;
  void suspend() override;
  void resume() override;
  void report() override;

  Verdict finish() override;
  std::vector<std::string> left_behind() const override { return cleanup_.left_behind(); }
  void keep_files(const Verdict& verdict) override;
  NodeOutput* node_output() override { return &output_; }

  // To be called before begin(), on node 0 of several: a descriptor that listens at the plan's
  // endpoint.
  void listen_with(UniqueFd listener) { gathering_.listen_with(std::move(listener)); }
  // Rank and content of each error file of the last generation.
  std::vector<std::pair<int, std::string>> error_files() const { return evidence_.error_files(); }
  // Copies of the flight recorders of the last generation, if `verdict` wants them kept. Empty if
  // no rank has opened its recorder.
  std::vector<RecorderCopy> recorders(const Verdict& verdict) const;

 private:
  OtherNodesEvents events_of_gathering();
  Overseers::Events events_of_overseers();
  CheckpointEvents events_of_saving();
  GenerationEvents events_of_generation();
  Ending::Events events_of_ending();

  void begin_generation(Meeting meeting);
  void start_ranks(const std::string& error);
  void begin_next();
  void meet_again();
  void on_job_failed(JobFailure failure);
  void on_rank_ended(const RankEnd& end, int local_rank);
  void on_ranks_ended(bool all_well);
  void say_who_was_outlived();
  void stop_for_this_node(const std::string& why, int signal);
  std::string with_this_node(const std::string& text) const;
  void check_ended();

  Verdict verdict() const;
  void say(const std::string& line) const { events_.on_sentence(line); }

  boost::asio::io_context& io_;
  const NodePlan& plan_;
  AgentSettings settings_;
  UniqueFd key_;
  AgentEvents& events_;
  NodeOutput output_;
  Generations generations_;
  Alarm left_alarm_;
  Alarm delay_alarm_;  // before the next generation
  Overseers overseers_;
  Gathering gathering_;
  Saving saving_;
  Cleanup cleanup_;
  Ending ending_;
  Outcome outcome_;
  Evidence evidence_;
  int attempt_ = 0;              // the number of the generation
  rendezvous::Restart restart_;  // the frontend's decision on the last generation
  bool is_over_ = false;         // on_over() was called
};

}  // namespace dl::launcher
