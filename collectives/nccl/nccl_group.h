// NcclGroup: the ProcessGroup over NCCL, for the memory of one GPU a rank.
//
// It belongs to a CPU group of the same ranks (`host`), through which the ranks meet and learn at
// once of another rank's failure: an error of one group breaks both. Operations run on a stream of
// the group's own, ordered by events after the caller's stream. Work::wait(stream) orders a stream
// after them, and nothing blocks the host.
//
// NCCL neither compares the ranks' calls nor has deadlines. So a watcher thread times each
// operation from the moment when the GPU reaches it. When an operation is late, the watcher asks
// the other ranks for their last calls (notices.h); at the deadline it aborts the communicator. If
// the abort hangs too, the process ends, because NCCL may write into GPU memory at any time.
//
// An operation that NCCL lacks throws kNotImplemented: reductions that can_reduce() excludes,
// Order::kTree, tags other than 0, receives from any source, and all_to_all(v) in place. Messages
// between two ranks are matched in order. A batch is one operation.
//
// Operations may be captured into a CUDA graph: their Work orders streams inside the capture and
// counts as over. Each launch of the graph (core/device/cuda/graph.h) is watched as one operation.
// Graphs that contain the group's operations are destroyed before the communicator, as NCCL
// requires.
//
// Ownership: the group owns communicator, stream and watcher; a Work keeps the stream and its
// buffers' owner alive. Dropping the group waits for launches of graphs, and for operations that a
// stream waits for, until their deadlines. Other operations under way end with kAborted. A thread
// of NCCL may go on serving other ranks until they leave too. Thread-safety: process_group.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "collectives/api/process_group.h"
#include "collectives/call/descriptor.h"
#include "collectives/nccl/library/module.h"
#include "collectives/nccl/notices.h"
#include "collectives/record/recorder.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::collectives {

struct NcclGroupOptions {
  const nccl::Module* module = nullptr;
  cuda::Runtime* runtime = nullptr;
  int device = 0;
  Ref<ProcessGroup> host{};
  std::chrono::nanoseconds timeout{};          // of an operation
  std::chrono::nanoseconds connect_timeout{};  // for NCCL's own connections
  Ref<nccl::Notices> notices{};
  std::shared_ptr<record::Recorder> recorder{};
  std::chrono::nanoseconds warn_after = std::chrono::seconds(5);
  // How long the other ranks have to report their last calls when an operation is late.
  std::chrono::nanoseconds answer_patience = std::chrono::seconds(1);
  std::chrono::nanoseconds abort_time = std::chrono::seconds(5);
  // Ends the process with this text; tests replace it. Null: logs the text and exits with 1.
  std::function<void(const std::string& text)> end_process{};
};

namespace nccl {
// False for what NCCL lacks: avg of integers, band and bor except of bool, bxor, and i16 and u16;
// operations whose output may not be their input.
bool can_reduce(DType dtype, ReduceOp op) noexcept;
bool can_run_in_place(OpKind kind) noexcept;
}  // namespace nccl

// Collective over the ranks of `host`. Throws kTimeout if a rank does not come, kConnection with
// NCCL's text, and what the host group throws.
Ref<ProcessGroup> make_nccl_group(const NcclGroupOptions& options);

}  // namespace dl::collectives
