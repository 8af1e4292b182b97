// BareNccl: measures NCCL without dlrun. It calls ncclAllReduce on a blocking communicator of its
// own, in the caller's stream, as nccl-tests does: no events, watcher, deadline or recorder.
//
// One thread.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/bench/machine/gpu.h"
#include "collectives/bench/operation/operation.h"
#include "collectives/nccl/library/module.h"

namespace dl::collectives::bench {

class BareNccl {
 public:
  // Collective: every rank of the group calls it. The group's CPU part exchanges NCCL's id. Throws
  // kConnection.
  BareNccl(ProcessGroup& group, const Gpu& gpu, const nccl::Module& module);
  // Destroy it when no rank is in an operation any more.
  ~BareNccl();
  BareNccl(const BareNccl&) = delete;
  BareNccl& operator=(const BareNccl&) = delete;

  // The Work is over when the stream's work is.
  Ref<Work> all_reduce(const TimedCall& call);

 private:
  void check(int code, const char* call) const;

  const nccl::Module& nccl_;
  void* stream_;
  nccl::Comm comm_ = nullptr;
};

}  // namespace dl::collectives::bench
