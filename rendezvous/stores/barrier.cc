#include "rendezvous/stores/barrier.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/rank_list.h"

namespace dl::rendezvous {
namespace {

// Time to ask who has arrived, after the deadline has passed.
constexpr std::chrono::seconds kTimeToAsk{5};

// Empty if all ranks have come by now.
std::string missing_ranks(Store& store, const std::string& prefix, int size, Deadline deadline) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.try_get(prefix + std::to_string(rank), deadline)) missing.push_back(rank);
  }
  return missing.empty() ? "" : ranks_of(std::move(missing), size);
}

}  // namespace

void barrier(Store& store, const BarrierOfRanks& options, Deadline deadline) {
  DL_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "barrier '{}': there is no rank {} in {} ranks", options.name, options.rank,
           options.size);
  const std::string prefix = fmt::format("barrier/{}/", options.name);
  const std::string all_here = prefix + "all";
  store.set(prefix + std::to_string(options.rank), options.who, deadline);
  // The last rank to come sets one key, so that each rank waits for this key only.
  if (store.add(prefix + "count", 1, deadline) == options.size) store.set(all_here, "", deadline);

  Patience patience(options.warn_after);
  for (;;) {
    const Deadline until = patience.until(deadline);
    try {
      store.wait({&all_here, 1}, until);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || !until.has_passed()) throw;
    }
    const bool late = deadline.has_passed();
    if (!late && !patience.should_warn()) continue;
    // A store that is slow to answer must not end a barrier that has time left.
    const Deadline answered_by = late ? Deadline::after(kTimeToAsk) : deadline;
    const std::string missing = missing_ranks(store, prefix, options.size, answered_by);
    if (missing.empty() && late) return;
    if (missing.empty()) continue;
    const std::string text =
        fmt::format("barrier '{}': rank {} has waited {} s for {}", options.name, options.rank,
                    patience.waited().count(), missing);
    if (late) throw Error(ErrorKind::kTimeout, text);
    log::warning("{}", text);
  }
}

}  // namespace dl::rendezvous
