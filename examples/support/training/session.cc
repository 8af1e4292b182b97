#include "examples/support/training/session.h"

#include <fmt/format.h>

#include <utility>

#include "core/device/parallel.h"
#include "examples/support/training/report/fingerprint.h"

namespace dl::examples {

Reporter::Config reporter_config(const RunOptions& run, const collectives::ProcessGroup& group,
                                 std::string unit) {
  return {.speaks = group.rank() == 0,
          .json = run.json,
          .log_every = run.log_every,
          .progress_width = terminal_width(),
          .unit = std::move(unit)};
}

std::string describe_ranks(const collectives::ProcessGroup& group, Device device) {
  return fmt::format("{} rank{} with {} thread{} each{}", group.size(),
                     group.size() == 1 ? "" : "s", num_threads(), num_threads() == 1 ? "" : "s",
                     device.type == DeviceType::kCUDA ? " on " + device.str() : "");
}

Result conclude(const Outcome& outcome, const RunOptions& run, collectives::ProcessGroup& group,
                const Profiling& profiling, Reporter& reporter) {
  const Sha256 hash = fingerprint(outcome.model.named_parameters());
  require_equal_on_all_ranks(hash, group);
  if (group.rank() == 0 && !run.save.empty()) {
    nn::save_safetensors(run.save, outcome.model.state_dict(), outcome.metadata);
  }
  profiling.finish(reporter);
  return {.scores = outcome.scores,
          .per_s = outcome.per_s,
          .parameters = outcome.model.count_parameters(),
          .parameters_sha256 = hex(hash),
          .world_size = group.size()};
}

}  // namespace dl::examples
