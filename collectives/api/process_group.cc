#include "collectives/api/process_group.h"

#include "collectives/api/memory_making.h"
#include "collectives/call/checks.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/joined_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

std::string shares_none(const ProcessGroup& group, std::string_view why) {
  return fmt::format("group '{}' is a {} group; {}", group.name(), group.backend(), why);
}

}  // namespace

void ProcessGroup::set_reformer(Ref<Reformer> reformer) {
  const Lock lock(reformer_mutex_);
  std::swap(reformer_, reformer);
}
Ref<Reformer> ProcessGroup::reformer() const {
  const Lock lock(reformer_mutex_);
  return reformer_;
}

Ref<Work> ProcessGroup::all_reduce(const AllReduceOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::broadcast(const BroadcastOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::all_gather(const AllGatherOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::reduce_scatter(const ReduceScatterOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::barrier(const BarrierOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::send(const SendOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::recv(const RecvOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::reduce(const ReduceOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::gather(const GatherOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::scatter(const ScatterOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::all_to_all(const AllToAllOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::all_gatherv(const AllGathervOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::reduce_scatterv(const ReduceScattervOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::gatherv(const GathervOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::scatterv(const ScattervOptions& o) {
  return start(checked(o, rank_, size_));
}
Ref<Work> ProcessGroup::all_to_allv(const AllToAllvOptions& o) {
  return start(checked(o, rank_, size_));
}

void ProcessGroup::fail(const std::exception_ptr& cause,
                        std::optional<std::uint64_t> /*completes_until*/) noexcept try {
  abort(cause_of(cause).text);
} catch (...) {
  abort("a rank has run out of memory");
}

Ref<ProcessGroup> ProcessGroup::split(const SplitOptions&) {
  throw_error(ErrorKind::kNotImplemented, "split: group '{}' is a {} group, which cannot be split",
              name_, backend_);
}

Identity ProcessGroup::identity(int rank) const {
  return {.rank = rank};
}

Ref<SymmetricMemory> ProcessGroup::allocate_symmetric(std::size_t bytes) {
  check_memory_size(bytes);
  MemoryMaking making(*this, {.call = kForAllocate, .bytes = bytes});
  Ref<SymmetricMemory> memory;
  const std::string why = making.run([&] {
    return making.together([&] {
      memory = make_ordinary_memory(bytes, shares_none(*this,
                                                       "only ranks of one node share memory, in a "
                                                       "shm group or a hybrid one"));
    });
  });
  DL_CHECK(why.empty(), kIo, "allocate: {}", why);
  return memory;
}

Ref<SymmetricMemory> ProcessGroup::register_symmetric(void* data, std::size_t bytes,
                                                      Ref<RefCounted> owner) {
  MemoryMaking making(*this, {.call = kForRegister, .bytes = bytes});
  making.run([&] { return making.together([] {}); });
  return make_unshared_memory(data, bytes, std::move(owner),
                              shares_none(*this, "only a shm group can share existing memory"));
}

Ref<Work> ProcessGroup::sendrecv(const SendOptions& to, const RecvOptions& from) {
  const Call both[] = {checked(from, rank_, size_), checked(to, rank_, size_)};
  return start_all(both);
}

Ref<Work> ProcessGroup::batch(std::span<const PeerMessage> messages) {
  std::vector<Call> calls;
  calls.reserve(messages.size());
  for (const PeerMessage& message : messages) calls.push_back(checked(message, rank_, size_));
  return start_all(calls);
}

Ref<Work> ProcessGroup::start_all(std::span<const Call> calls) {
  std::vector<Ref<Work>> works(calls.size());
  for (const bool receives : {true, false}) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if ((calls[i].what.op == OpKind::kRecv) == receives) works[i] = start(calls[i]);
    }
  }
  return join(std::move(works));
}

}  // namespace dl::collectives
