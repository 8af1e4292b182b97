#include "collectives/shm/shm_group.h"

#include "collectives/shm/group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// A slot must hold a line of every rank's part.
constexpr int kMostRanks = 1024;

// Without an interface or a route, it stays on loopback.
Ref<ProcessGroup> make_messages(const ShmGroupOptions& options) {
  return make_tcp_group({.rank = options.rank,
                         .size = options.size,
                         .name = options.name,
                         .store = options.store,
                         .key = options.key,
                         .job = options.job,
                         .generation = options.generation,
                         .timeout = options.timeout,
                         .connect_timeout = options.connect_timeout,
                         .speak_after = options.speak_after,
                         .node = options.node,
                         .reports_failures = false,
                         .recorder = options.recorder,
                         .engine = options.engine});
}

}  // namespace

Ref<RefCounted> reserve_shm_segment() {
  auto reserved = make_ref<shm::Reserved>();
  reserved->segment = shm::Segment::make(shm::kSegmentBytes);
  return reserved;
}

Ref<ProcessGroup> make_shm_group(const ShmGroupOptions& options) {
  DL_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "group '{}': rank is {} of a world size of {}", options.name, options.rank,
           options.size);
  DL_CHECK(options.size <= kMostRanks, kInvalidArgument,
           "group '{}': {} ranks on one node, at most {} can share memory", options.name,
           options.size, kMostRanks);
  DL_CHECK(!options.name.empty() && options.name.size() <= 128 &&
               options.name.find('/') == std::string::npos,
           kInvalidArgument, "a group's name has 1 to 128 bytes and no '/', got '{}'",
           options.name);
  if (options.size == 1) return make_solo_group(options.name);
  DL_CHECK(options.store != nullptr, kInvalidArgument,
           "group '{}' of {} ranks needs a store for them to find each other", options.name,
           options.size);
  WaitPolicy policy = wait_policy(options.size);
  policy.speak_after = options.speak_after;
  shm::Links links = shm::connect_links(options, policy.yields);
  Ref<ProcessGroup> messages = options.messages ? options.messages : make_messages(options);
  return make_ref<shm::Group>(
      make_ref<shm::Core>(std::move(links), std::move(messages),
                          shm::Core::Options{.name = options.name,
                                             .generation = options.generation,
                                             .policy = policy,
                                             .reports_failures = options.reports_failures,
                                             .recorder = options.recorder}),
      options);
}

}  // namespace dl::collectives
