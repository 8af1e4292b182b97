// NcclGroup: the ProcessGroup over NCCL, for memory of one GPU a rank.
//
// It stands beside a CPU group of the same ranks (`host`), through which the ranks meet, and
// through which each learns at once that another has failed: an error of one poisons both.
// Operations run on a stream of the group's own, ordered by events after the caller's stream;
// Work::wait(stream) orders a stream after them, and nothing blocks the host. NCCL neither compares
// what ranks call nor knows deadlines: a watching thread times each operation from the moment when
// the GPU comes to it, asks the others where they are (notices.h) and, at the deadline, aborts the
// communicator. Where that hangs, too, the process ends: GPU memory may then be written at any
// time.
//
// What NCCL lacks is refused by name: band, bor and bxor but for bools, Order::kTree, tags, and
// receives from any rank; messages of two ranks are matched by their order. A batch is one
// operation. Operations may be captured into a CUDA graph: their Work orders streams inside the
// capture, and counts as over; each launch of the graph (core/device/cuda/graph.h) is watched as
// one operation. Graphs that hold its operations go before the communicator, as NCCL wants it.
//
// Ownership: the group owns communicator, stream and watcher; a Work keeps them and its buffers'
// owner alive. Dropping the group waits for launches of graphs, and for operations that a stream
// waits for, to their deadlines; it ends others under way with kAborted. A thread of NCCL's may go
// on serving the other ranks until they leave, too. Thread-safety: process_group.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "collectives/nccl/module.h"
#include "collectives/nccl/notices.h"
#include "collectives/process_group.h"
#include "collectives/record/recorder.h"
#include "core/device/cuda/runtime.h"

namespace dl::collectives {

struct NcclGroupOptions {
  const nccl::Module* module = nullptr;
  cuda::Runtime* runtime = nullptr;
  int device = 0;
  Ref<ProcessGroup> host{};
  std::chrono::nanoseconds timeout{};          // of an operation
  std::chrono::nanoseconds connect_timeout{};  // of NCCL's own meeting
  Ref<nccl::Notices> notices{};
  std::shared_ptr<record::Recorder> recorder{};
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);
  // For the others to say where they are, when an operation is late.
  std::chrono::nanoseconds answer_patience = std::chrono::seconds(1);
  std::chrono::nanoseconds abort_time = std::chrono::seconds(5);
  // Ends the process with this text; for tests. Null: prints it, and exits with 1.
  std::function<void(const std::string& text)> end_process{};
};

// Collective; the ranks of `host`. Throws kTimeout where not all have come, kConnection with what
// NCCL says, and what the host group throws.
Ref<ProcessGroup> make_nccl_group(const NcclGroupOptions& options);

}  // namespace dl::collectives
