#include "collectives/shm/shm_group.h"

#include "collectives/shm/group.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"

namespace dl::collectives {

Ref<RefCounted> reserve_shm_segment() {
  auto reserved = make_ref<shm::Reserved>();
  reserved->segment = shm::Segment::make(shm::kSegmentBytes);
  return reserved;
}

Ref<ProcessGroup> make_shm_group(const GroupOptions& options) {
  check_group(options);
  DL_CHECK(static_cast<std::size_t>(options.size) <= shm::kMostRanks, kInvalidArgument,
           "group '{}': {} ranks on one node, at most {} can share memory", options.name,
           options.size, shm::kMostRanks);
  if (options.size == 1) return make_solo_group(options.name);
  WaitPolicy policy = wait_policy(options.size);
  policy.warn_after = options.warn_after;
  shm::Links links = shm::connect_links(options, policy.yields);
  return make_ref<shm::Group>(
      make_ref<shm::Core>(std::move(links),
                          shm::Core::Options{.name = options.name,
                                             .generation = options.generation,
                                             .policy = policy,
                                             .reports_failures = options.reports_failures,
                                             .recorder = options.recorder}),
      options);
}

}  // namespace dl::collectives
