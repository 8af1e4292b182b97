// Outcome: why a generation ends, as this node knows it, and the verdict on it. The reason is an
// order, the cause that all nodes got, or the first cause among this node's ranks.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <chrono>
#include <optional>

#include "launcher/agent/agent_port.h"
#include "launcher/agent/gathering.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/nodes/node_link.h"
#include "launcher/plan/plan.h"
#include "launcher/preempt/saving.h"

namespace dl::launcher {

class Outcome {
 public:
  Outcome(const NodePlan& plan, const Generations& generations, const Gathering& gathering,
          const Saving& saving)
      : plan_(plan), generations_(generations), gathering_(gathering), saving_(saving) {}

  void begin_generation() { began_ = Clock::now(); }
  void end_generation() { job_failure_.reset(); }

  // An order to end the job is the reason, whatever else is known.
  void set_stop(StopCause cause) { stop_cause_ = std::move(cause); }
  // The service has found the first cause in the whole job. It is the reason unless the job ends by
  // an order, or the cause is this node itself.
  void set_failure(JobFailure failure);
  bool has_reason() const;

  // The rank that is the first cause; -1: none is known.
  int cause_rank() const;
  Verdict verdict() const;

 private:
  using Clock = std::chrono::steady_clock;

  // The first cause among this node's ranks; null: none is known, or a rank may still outlive it
  // (--on-failure keep), which on several nodes only the service knows.
  const rendezvous::Finding* finding() const;

  // nullopt: the generation has not failed.
  std::optional<Verdict> verdict_on_failure() const;
  Verdict verdict_on_job_failure() const;
  Verdict verdict_on_finding() const;
  Verdict verdict_on_saving() const;
  void say_who_has_not_saved(Verdict& verdict) const;

  const NodePlan& plan_;
  const Generations& generations_;
  const Gathering& gathering_;
  const Saving& saving_;
  std::optional<StopCause> stop_cause_;
  std::optional<JobFailure> job_failure_;
  Clock::time_point began_{};
};

}  // namespace dl::launcher
