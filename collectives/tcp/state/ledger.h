// Ledger: the begin and the end of a group's operations, in the flight recorder and for the threads
// that wait for them.
//
// A part of Core. The driver begins and ends operations. Their last Ref is dropped by release(), on
// a caller's thread, because owners of buffers may run users' code.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/record/recorder.h"
#include "collectives/tcp/state/membership.h"
#include "collectives/tcp/state/operation.h"
#include "core/base/mutex.h"

namespace dl::collectives::tcp {

class Ledger {
 public:
  // `recorder`: null if nothing is recorded.
  Ledger(const Membership& group, const std::shared_ptr<record::Recorder>& recorder);

  // Any thread. -----------------------------------------------------------------------------------
  record::Slot* enqueue(const record::What& what) noexcept { return recorder_.enqueue(what); }
  void release();

  // Driver. ---------------------------------------------------------------------------------------
  // Its first byte may move.
  void begin(const Operation& operation);
  // It waits for this rank, and for long.
  void wait_for(const Operation& operation, int rank) noexcept {
    recorder_.wait_for(operation.slot, rank);
  }
  // To be called before the operations end, because the process may end with them.
  void note_break(const Cause& cause) noexcept {
    recorder_.broken(dl::name_of(cause.kind), cause.text);
  }
  // Null `error`: success. Only the first end of an operation counts.
  void end(Ref<Operation> operation, const std::exception_ptr& error);

 private:
  record::GroupRecorder recorder_;
  std::vector<std::pair<const char*, std::uint8_t>> algorithms_;  // their numbers in the recorder
  Mutex mutex_;
  std::vector<Ref<Operation>> finished_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::collectives::tcp
