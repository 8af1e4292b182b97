// Agent: runs one node's part of a job. It owns the node's generations, one after the other, the
// store's service or the connection to the other nodes, and the processes below dlrun.
//
// Everything runs on the event loop's thread. On one node the ranks start at once; on several
// nodes, the nodes meet first. EndMachine decides how a generation ends; verdict() tells how it
// ended.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/agent/agent_port.h"
#include "launcher/agent/ending/end_machine.h"
#include "launcher/agent/ending/lingering.h"
#include "launcher/agent/generation.h"
#include "launcher/nodes/other_nodes.h"
#include "launcher/nodes/store_service.h"
#include "launcher/output/node_output.h"
#include "launcher/plan/plan.h"
#include "launcher/preempt/checkpointing.h"
#include "launcher/process/warden/warden_client.h"
#include "launcher/torch_store/store_port.h"
#include "launcher/torch_store/torch_store.h"

namespace dl::launcher {

class Agent : public AgentOrders, private GenerationEvents {
 public:
  // `key`: a sealed memfd with the job's key. All references must outlive the agent.
  Agent(boost::asio::io_context& io, const NodePlan& plan, AgentSettings settings, UniqueFd key,
        WardenHandle warden, DiskThread& disk, FrameTaker& front, AgentEvents& events);
  ~Agent() override;

  void begin() override;
  void stop(StopCause cause, int signal) override;
  void hurry() override;
  void signal_ranks(int signal) override;
  void ask_to_save(const std::string& why) override;
  void suspend() override;
  void resume() override;
  void report() override;

  Verdict finish() override;
  std::vector<std::string> left_behind() const override;
  void keep_files(const Verdict& verdict) override;
  NodeOutput* node_output() override { return &output_; }

  // To be called before begin(), on node 0 of several: a descriptor that listens at the plan's
  // endpoint.
  void listen_with(UniqueFd listener) { listener_ = std::move(listener); }
  // Rank and content of each error file of the last generation.
  std::vector<std::pair<int, std::string>> error_files() const {
    return generation_ ? generation_->error_files() : std::vector<std::pair<int, std::string>>();
  }
  // Copies of the flight recorders of the last generation, if `verdict` wants them kept. Empty if
  // no rank has opened its recorder.
  std::vector<RecorderCopy> recorders(const Verdict& verdict) const;

 private:
  using Clock = std::chrono::steady_clock;
  using Actions = EndMachine::Actions;
  // After SIGKILL: dlrun names a process that is still there after this time.
  static constexpr std::chrono::seconds kSilence{5};
  // After SIGKILL: dlrun ends without the process after this time.
  static constexpr std::chrono::seconds kMostKilling{30};

  Verdict verdict() const;
  // nullopt: the generation has not failed.
  std::optional<Verdict> verdict_on_failure() const;
  void end_descendants();
  void meet();
  void begin_generation(Meeting meeting);
  void begin_next();
  void meet_again();
  void open_checkpoint_door(const Meeting& meeting);
  Verdict verdict_on_saving() const;
  void say_who_has_not_saved(Verdict& verdict) const;

  void on_rank_started(int rank, pid_t pid) override;
  void on_rank_ended(const RankEnd& end, int local_rank) override;
  void on_rank_waits(int rank, const rendezvous::Waiting& waiting) override;
  void on_rank_goes_on(int rank) override;
  void on_cause() override;
  void on_stop(StopCause why) override;
  void on_all_ended(bool all_well) override;
  void on_finished() override;
  void on_warden_lost() override;
  void on_supervisor_lost() override;
  void on_note(const std::string& line) override;

  void on_job_failed(JobFailure failure);
  void on_swept(int status);
  void on_no_supervisor(int error);
  void on_warden_gone(std::optional<int> status);
  void on_warden_late();
  void end_without_supervisor(int exit_code, const std::string& why);

  std::string with_node(int number, const std::string& text) const;
  // Ends the job for good, and tells the other nodes why.
  void end_job(StopCause cause, int signal);
  void check_ended();
  void act(const Actions& actions);
  void act(EndMachine::Action action);
  void after(boost::asio::steady_timer& timer, std::chrono::milliseconds time,
             void (Agent::*then)());
  void on_grace_over() { act(machine_.grace_over()); }
  void on_silence();
  void on_patience_over() { act(machine_.patience_over()); }
  void linger();
  void sweep(Leftovers order);
  void close_store();
  std::vector<std::string> who_is_left() const;
  void say_who_is_left(const std::vector<std::string>& left);
  std::vector<RecorderCopy> recorders() const;
  void keep_recorders();
  int cause_rank() const;
  bool wanted_store_port(const RankFacts& rank0) const;

  boost::asio::io_context& io_;
  const NodePlan& plan_;
  AgentSettings settings_;
  UniqueFd key_;
  AgentEvents& events_;
  NodeOutput output_;
  WardenClient warden_;
  boost::asio::steady_timer grace_timer_;
  boost::asio::steady_timer verdict_timer_;
  boost::asio::steady_timer left_timer_;
  boost::asio::steady_timer delay_timer_;    // before the next generation
  UniqueFd listener_;                        // empty: OtherNodes makes one
  std::unique_ptr<StoreService> store_;      // one node
  std::unique_ptr<OtherNodes> others_;       // several
  std::optional<StorePort> store_port_;      // until the nodes have met
  std::unique_ptr<TorchStore> torch_store_;  // of the generation; null: this node serves none
  bool is_over_ = false;                     // on_over() was called
  bool gave_up_ = false;                     // dlrun ends although processes are left
  bool keeps_recorders_ = false;             // the recorders are being copied

  // State of the current generation:
  int attempt_ = 0;
  EndMachine machine_;
  std::unique_ptr<Generation> generation_;        // once the nodes have met
  std::optional<std::string> early_request_;      // to save, before checkpointing_ exists
  std::unique_ptr<Checkpointing> checkpointing_;  // null: the job cannot be preempted
  std::unique_ptr<Generation> previous_;          // its pending handlers may still run
  std::unique_ptr<Lingering> lingering_;          // null: some ranks may run
  std::optional<StopCause> stop_cause_;
  std::optional<JobFailure> job_failure_;  // on several nodes: the cause that all nodes got
  bool supervisor_is_lost_ = false;
  bool warden_is_gone_ = false;
  Clock::time_point began_{};
  rendezvous::Restart restart_;
};

}  // namespace dl::launcher
