#include "collectives/api/process_group.h"

#include "collectives/call/buffers.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/joined_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

[[noreturn]] void refuse(const ProcessGroup& group, std::string_view operation) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: group '{}' is a {} group, which does not have it; a tcp group does", operation,
              group.name(), group.backend());
}

std::string shares_none(const ProcessGroup& group, std::string_view why) {
  return fmt::format("group '{}' is a {} group; {}", group.name(), group.backend(), why);
}

}  // namespace

Ref<Work> ProcessGroup::reduce(const ReduceOptions&) {
  refuse(*this, "reduce");
}
Ref<Work> ProcessGroup::gather(const GatherOptions&) {
  refuse(*this, "gather");
}
Ref<Work> ProcessGroup::scatter(const ScatterOptions&) {
  refuse(*this, "scatter");
}
Ref<Work> ProcessGroup::all_to_all(const AllToAllOptions&) {
  refuse(*this, "all_to_all");
}
Ref<Work> ProcessGroup::all_gatherv(const AllGathervOptions&) {
  refuse(*this, "all_gatherv");
}
Ref<Work> ProcessGroup::reduce_scatterv(const ReduceScattervOptions&) {
  refuse(*this, "reduce_scatterv");
}
Ref<Work> ProcessGroup::gatherv(const GathervOptions&) {
  refuse(*this, "gatherv");
}
Ref<Work> ProcessGroup::scatterv(const ScattervOptions&) {
  refuse(*this, "scatterv");
}
Ref<Work> ProcessGroup::all_to_allv(const AllToAllvOptions&) {
  refuse(*this, "all_to_allv");
}

void ProcessGroup::fail(const std::exception_ptr& cause,
                        std::optional<std::uint64_t> /*spared*/) noexcept try {
  abort(cause_of(cause).text);
} catch (...) {
  abort("a rank has run out of memory");
}

Ref<ProcessGroup> ProcessGroup::split(const SplitOptions&) {
  refuse(*this, "split");
}

Ref<SymmetricMemory> ProcessGroup::allocate_symmetric(std::size_t bytes) {
  return make_ordinary_memory(bytes, shares_none(*this,
                                                 "only ranks of one node share memory, in a shm "
                                                 "group or a hybrid one"));
}

Ref<SymmetricMemory> ProcessGroup::register_symmetric(void* data, std::size_t bytes,
                                                      Ref<RefCounted> owner) {
  return make_unshared_memory(
      data, bytes, std::move(owner),
      shares_none(*this, "only the ranks of a shm group share memory that exists"));
}

Ref<Work> ProcessGroup::sendrecv(const SendOptions& to, const RecvOptions& from) {
  const PeerMessage both[] = {from, to};
  return batch(both);
}

Ref<Work> ProcessGroup::batch(std::span<const PeerMessage> messages) {
  for (const PeerMessage& message : messages) {
    if (const auto* const to = std::get_if<SendOptions>(&message)) {
      check_message(OpKind::kSend, *to, rank(), size(), backend());
    } else {
      check_message(OpKind::kRecv, std::get<RecvOptions>(message), rank(), size(), backend());
    }
  }
  return start_each(messages);
}

Ref<Work> ProcessGroup::start_each(std::span<const PeerMessage> messages) {
  std::vector<Ref<Work>> works(messages.size());
  // Start the receives first, so that arriving messages find their buffers.
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (const auto* const from = std::get_if<RecvOptions>(&messages[i])) works[i] = recv(*from);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (const auto* const to = std::get_if<SendOptions>(&messages[i])) works[i] = send(*to);
  }
  return join(std::move(works));
}

Ref<Work> ProcessGroup::all_reduce_list(std::span<const AllReduceOptions> parts,
                                        const CallOptions& call) {
  std::vector<Ref<Work>> works;
  works.reserve(parts.size());
  for (AllReduceOptions part : parts) {
    part.call = call;
    works.push_back(all_reduce(part));
  }
  return join(std::move(works));
}

}  // namespace dl::collectives
