// Operation: a Work of a TCP group; the common part of collectives and messages.
//
// The caller fills it, the engine's driver runs it, any thread waits for it. Fields below "driver"
// are touched only by the thread that drives the engine (engine.h).
#pragma once

#include "collectives/algorithms/execution/execution.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::tcp {

class Core;
class Engine;

class Operation : public PendingWork {
 public:
  // The wait begins now.
  Operation(Ref<Engine> engine, Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);
  ~Operation() override;

  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;

  // Driver: ends the operation; null `error`: success. Only the first call counts.
  void end(std::exception_ptr error) noexcept;

 private:
  Ref<Engine> engine_;
  Ref<Core> core_;
};

// A collective under way.
class Collective final : public Operation {
 public:
  Collective(Ref<Engine> engine, Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout,
             Schedule schedule, int size)
      : Operation(std::move(engine), std::move(core), call, timeout),
        execution(call, std::move(schedule), size) {}

  std::string_view algorithm() const noexcept override { return name_of(execution.algorithm()); }

  Execution execution;  // driver
};

// One send or recv.
class Message final : public MessageOf<Operation> {
 public:
  using MessageOf::MessageOf;
};

}  // namespace dl::collectives::tcp
