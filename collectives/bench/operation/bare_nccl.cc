#include "collectives/bench/operation/bare_nccl.h"

#include "collectives/compose/objects.h"
#include "collectives/waiting/done_work.h"
#include "core/base/error.h"

namespace dl::collectives::bench {

BareNccl::BareNccl(ProcessGroup& group, const Gpu& gpu, const nccl::Module& module)
    : nccl_(module), stream_(gpu.stream().handle) {
  nccl::UniqueId id{};
  if (group.rank() == 0) check(nccl_.unique_id(&id), "ncclGetUniqueId");
  broadcast_bytes(group, {id.bytes, sizeof id.bytes}, 0).copy(id.bytes, sizeof id.bytes);
  check(nccl_.init_blocking(&comm_, group.size(), &id, group.rank(), gpu.device()),
        "ncclCommInitRank");
}

BareNccl::~BareNccl() {
  if (comm_ != nullptr) nccl_.abort(comm_);
}

void BareNccl::check(int code, const char* call) const {
  DL_CHECK(code == nccl::kSuccess, kConnection, "--bare: {}: {}", call, nccl_.error_text(code));
}

Ref<Work> BareNccl::all_reduce(const TimedCall& c) {
  check(nccl_.all_reduce(c.input, c.output, c.count, c.dtype, c.reduce, comm_, stream_),
        "ncclAllReduce");
  return make_ref<DoneWork>("bare nccl");
}

}  // namespace dl::collectives::bench
