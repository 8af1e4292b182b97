// Endings: ends operations, in the flight recorder and for the threads that wait, and keeps them
// until a caller's thread releases their owners, which may run users' code.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "collectives/mpi/core/engine.h"
#include "collectives/mpi/core/operation.h"
#include "collectives/record/recorder.h"

namespace dl::collectives::mpi {

class Endings {
 public:
  Endings(Engine& engine, record::GroupRecorder log) : engine_(engine), log_(std::move(log)) {}

  record::GroupRecorder& log() noexcept { return log_; }

  void succeed(Ref<Operation> operation) {
    log_.finish(operation->slot);
    operation->end(nullptr);
    over_.push_back(std::move(operation));
  }
  // MPI keeps the buffers of requests that have not ended.
  void fail(Ref<Operation> operation, const std::exception_ptr& error) {
    if (!operation->requests.empty()) engine_.hold(operation);
    log_.fail(operation->slot);
    operation->end(error);
    over_.push_back(std::move(operation));
  }
  // To be dropped without the lock.
  std::vector<Ref<Operation>> take() noexcept { return std::exchange(over_, {}); }

 private:
  Engine& engine_;
  record::GroupRecorder log_;
  std::vector<Ref<Operation>> over_;
};

}  // namespace dl::collectives::mpi
