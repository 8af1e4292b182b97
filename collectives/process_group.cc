#include "collectives/process_group.h"

#include "collectives/joined_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

[[noreturn]] void refuse(const ProcessGroup& group, std::string_view operation) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: group '{}' is a {} group, which does not have it; a tcp group does", operation,
              group.name(), group.backend());
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

Ref<Work> ProcessGroup::sendrecv(const SendOptions& to, const RecvOptions& from) {
  // The receive first, so that what comes finds its place.
  Ref<Work> received = recv(from);
  return join({std::move(received), send(to)});
}

}  // namespace dl::collectives
