// Frontend: the dlrun that the user started. It handles the terminal's signals, shows the output,
// prints the page at the end and returns the exit code. Agents run the ranks (agent_port.h). The
// frontend need not be on a node of the job.
//
// Everything runs on the event loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_port.h"
#include "launcher/cli/options.h"
#include "launcher/frontend/job_state.h"
#include "launcher/frontend/starter.h"
#include "launcher/jobs/card/job_card.h"
#include "launcher/output/job/job_output.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/preempt/save_requests.h"
#include "launcher/process/input_pump.h"
#include "launcher/process/warden/job_signals.h"
#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

class Frontend : private AgentEvents {
 public:
  Frontend(const Options& options, Starter& starter);

  // Runs the job to its end and returns dlrun's exit code. Throws Error if something fails before
  // the first rank starts.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void on_sentence(const std::string& line) override { output_.say(line); }
  void on_attempt(int attempt, const std::vector<int>& ranks) override;
  void on_rank(const RankNews& news) override;
  rendezvous::Restart on_verdict(const Verdict& verdict) override;
  void on_begins_again(const Verdict& verdict, const rendezvous::Restart& restart) override;
  void on_over() override { io_.stop(); }

  // The look of a rank's lines, according to the options.
  LineLook look_of(const StreamId& id) const;
  AgentSettings settings() const;
  void limit_time();
  void discard_input_of_other_nodes();

  void on_signal(int signal);
  // True if --signals-to-handle names the signal: it ends the job and goes to the ranks unchanged.
  bool is_to_handle(int signal) const;
  void end_for(int signal);
  // True if the signal is a request to save, or a repetition of one.
  bool asks_to_save(int signal);
  void discard_rest_of_input();
  void watch_allocation();
  void suspend();
  void report();
  void on_output_lost(LostStream lost);
  int finish_and_print(Verdict verdict);
  int exit_code_of(LostStream lost) const;
  // Writes a failure to --report-fd. Returns false if there is no failure or no such descriptor, or
  // if writing fails; a failed write is reported to the user.
  bool has_reported(const Verdict& verdict);

  const Options& options_;
  std::string host_;  // of the agent
  JobCard card_;
  int attempt_ = 0;
  std::map<int, int> local_ranks_;  // by rank, of all agents in this attempt
  boost::asio::io_context io_{1};
  DiskThread disk_;
  JobOutput output_;
  std::unique_ptr<AgentOrders> agent_;
  JobSignals signals_;
  rendezvous::RestartPolicy restarts_;
  JobState state_;
  boost::asio::steady_timer timeout_;
  boost::asio::steady_timer allocation_timer_;
  bool discards_input_ = true;
  bool may_have_input_left_ = false;  // some has come, and not its end
  std::optional<InputPump> discarded_;
  SaveRequests save_requests_;
  int interrupts_ = 0;
  int last_interrupt_ = 0;  // the signal of the last interrupt
  std::optional<LostStream> lost_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace dl::launcher
