#include "collectives/shm/shm_group.h"

#include "collectives/shm/group.h"
#include "collectives/solo/solo_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

class Lease final : public SegmentLease {
 public:
  shm::Segment take(std::string_view group) override {
    DL_CHECK(segment_.data() != nullptr, kInvalidArgument,
             "group '{}': its segment belongs to another group already", group);
    return std::move(segment_);
  }

 private:
  shm::Segment segment_ = shm::Segment::make(shm::kSegmentBytes);
};

}  // namespace

Ref<SegmentLease> reserve_shm_segment() {
  return make_ref<Lease>();
}

Ref<ProcessGroup> make_shm_group(const GroupOptions& options) {
  check_group(options);
  if (options.size == 1) return make_solo_group(options.name);
  return shm::make_group(options);
}

Ref<shm::Group> shm::make_group(const GroupOptions& options) {
  check_group(options);
  DL_CHECK(static_cast<std::size_t>(options.size) <= shm::kMostRanks, kInvalidArgument,
           "group '{}': {} ranks on one node, at most {} can share memory", options.name,
           options.size, shm::kMostRanks);
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
