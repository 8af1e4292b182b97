#include "collectives/bench/run.h"

#include <algorithm>
#include <csignal>
#include <optional>

#include "collectives/bench/measure/device_workload.h"
#include "collectives/bench/measure/workload.h"
#include "collectives/bench/operation/bare_nccl.h"
#include "collectives/bench/operation/bare_ring.h"
#include "collectives/call/checks.h"
#include "collectives/nccl/library/choice.h"
#include "collectives/nccl/nccl_group.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text/number.h"

namespace dl::collectives::bench {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

// The first signal asks to stop; the second one has its default effect.
void ask_to_stop() {
  struct sigaction action{};
  action.sa_handler = [](int) { stop_requested = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

// Collective: true on every rank if any rank was asked to stop.
bool must_stop(ProcessGroup& group) {
  std::uint8_t flag = stop_requested != 0 ? 1 : 0;
  group
      .all_reduce(
          {.input = &flag, .output = &flag, .count = 1, .dtype = DType::kU8, .op = ReduceOp::kMax})
      ->wait();
  return flag != 0;
}

std::optional<double> wanted_bandwidth() {
  const std::optional<std::string> text = env::get(env::Var::kNcclTestsMinBw);
  if (!text) return std::nullopt;
  const std::optional<double> value = read_number<double>(*text);
  DL_CHECK(value && *value >= 0, kInvalidArgument,
           "NCCL_TESTS_MIN_BW={} is not a bandwidth in GB/s", *text);
  return value;
}

bool has_meaning(DType dtype, ReduceOp op) {
  try {
    check_reduction(dtype, op, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The cases that -d, -o and -r ask for. "all" leaves out each pair of dtype and reduction that is
// undefined, or that the operation or NCCL does not support.
std::vector<Case> cases_of(const Options& o, const Operation& operation, int ranks,
                           bool over_nccl) {
  std::vector<int> roots;
  if (!operation.is_rooted()) {
    roots = {-1};
  } else if (o.root) {
    roots = {*o.root};
  } else {
    for (int rank = 0; rank < ranks; ++rank) roots.push_back(rank);
  }
  std::vector<Case> cases;
  for (const DType dtype : o.dtypes) {
    for (const ReduceOp reduce : o.reductions) {
      if (operation.reduces() ? !has_meaning(dtype, reduce) : reduce != o.reductions.front())
        continue;
      const bool is_only_case = o.dtypes.size() * o.reductions.size() == 1;
      if (operation.reduces() && over_nccl && !nccl::can_reduce(dtype, reduce) && !is_only_case) {
        continue;
      }
      for (const int root : roots)
        cases.push_back({.dtype = dtype, .reduce = reduce, .root = root});
    }
  }
  if (operation.expect == nullptr) cases.resize(1);  // a barrier has no dtype
  return cases;
}

// An all_reduce by NCCL without dlrun.
Operation bare_all_reduce(const Operation& all_reduce) {
  Operation bare = all_reduce;
  bare.start_own = [](ProcessGroup&, const TimedCall& c) { return c.nccl->all_reduce(c); };
  return bare;
}

// Runs the first operation on the GPUs, which connects them. Returns the way, "nccl" or "staged".
std::string meet_on_gpus(ProcessGroup& group, const Gpu& gpu) {
  const Ref<Work> met = group.barrier({.call = {.stream = gpu.stream()}});
  met->synchronize();
  return std::string(met->algorithm());
}

class Run {
 public:
  Run(ProcessGroup& group, const Options& options,
      const std::vector<std::unique_ptr<Report>>& reports, const OnGpu& on, bool is_over_nccl)
      : group_(group),
        o_(options),
        operation_(*options.operation),
        reports_(reports),
        over_nccl_(is_over_nccl),
        cases_(cases_of(options, operation_, group.size(), over_nccl_)),
        on_(on),
        inputs_(make_arena()),
        outputs_(make_arena()) {
    if (o_.cold) evictor_.emplace();
    if (!operation_.kind) ring_.emplace(group, o_.timeout);
    if (on_.gpu != nullptr) room_.emplace(*on_.gpu, arena_bytes() / o_.aggregate, o_.check > 0);
    if (o_.bare) nccl_.emplace(group, *on_.gpu, *on_.nccl);
  }

  // Returns false if stopped.
  bool cycle() {
    for (const Case& what : cases_) {
      for (std::size_t bytes = o_.min_bytes;; bytes = next_size(o_, bytes)) {
        size(what, bytes);
        if (must_stop(group_)) return false;
        if (next_size(o_, bytes) == 0) break;
      }
    }
    return true;
  }

  Summary summary() const {
    return {.wrong = wrong_,
            .bus_bandwidth = results_ > 0 ? bandwidth_ / static_cast<double>(results_) : 0,
            .wanted_bandwidth = wanted_bandwidth()};
  }

 private:
  std::size_t arena_bytes() const {
    constexpr std::size_t kPage = 4096;
    std::size_t most = 0;
    for (const Case& what : cases_) {
      const Shape shape = shape_of(operation_, what.dtype, o_.max_bytes, group_.size());
      most = std::max(most, shape.bytes + o_.unalign * size_of(what.dtype));
    }
    return (most + kPage - 1) / kPage * kPage * o_.aggregate;
  }

  Arena make_arena() const {
    if (on_.gpu != nullptr) return Arena(arena_bytes(), *on_.gpu);
    return o_.symmetric ? Arena(arena_bytes(), group_) : Arena(arena_bytes());
  }

  void size(Case what, std::size_t bytes) {
    const Shape shape = shape_of(operation_, what.dtype, bytes, group_.size());
    Row row{.bytes = shape.bytes,
            .count = shape.count,
            .dtype = what.dtype,
            .reduction = operation_.reduces() ? name_of(what.reduce) : "none",
            .root = what.root,
            .bus_factor = operation_.bus_factor(group_.size())};
    if (operation_.place != Place::kInOnly) {
      what.in_place = false;
      row.out_of_place = half(what, shape, row);
    }
    const std::optional<OpKind> kind = operation_.kind;
    const bool is_possible = !over_nccl_ || !kind || nccl::can_run_in_place(*kind);
    if (operation_.place != Place::kOutOnly && is_possible) {
      what.in_place = true;
      row.in_place = half(what, shape, row);
    }
    for (const auto& report : reports_) report->row(row);
  }

  Result half(const Case& what, const Shape& shape, const Row& row) {
    Result result = timed(what, shape, operation_);
    wrong_ += result.wrong;
    if (nccl_) {
      const Result bare = timed(what, shape, bare_all_reduce(operation_));
      result.bare = bare.times;
      wrong_ += bare.wrong;
    }
    bandwidth_ += bus_bandwidth(row, result).value_or(0);
    ++results_;
    return result;
  }

  Result timed(const Case& what, const Shape& shape, const Operation& operation) {
    const std::size_t iterations = iterations_for(o_, shape.bytes);
    CacheEvictor* const evictor = evictor_ ? &*evictor_ : nullptr;
    if (room_) {
      DeviceWorkload workload(group_, o_, operation, what, shape, inputs_, outputs_, *room_,
                              nccl_ ? &*nccl_ : nullptr);
      return measure(group_, o_, workload, iterations, evictor);
    }
    CollectiveWorkload workload(group_, o_, operation, what, shape, inputs_, outputs_,
                                ring_ ? &*ring_ : nullptr);
    return measure(group_, o_, workload, iterations, evictor);
  }

  ProcessGroup& group_;
  const Options& o_;
  const Operation& operation_;
  const std::vector<std::unique_ptr<Report>>& reports_;
  const bool over_nccl_;
  std::vector<Case> cases_;
  const OnGpu on_;
  Arena inputs_, outputs_;
  std::optional<CacheEvictor> evictor_;
  std::optional<BareRing> ring_;
  std::optional<DeviceRoom> room_;
  std::optional<BareNccl> nccl_;
  std::size_t wrong_ = 0;
  std::size_t results_ = 0;
  double bandwidth_ = 0;
};

}  // namespace

int run(ProcessGroup& group, const Options& options, const std::vector<std::string>& command,
        const std::vector<std::unique_ptr<Report>>& reports, const OnGpu& on) {
  static_cast<void>(wanted_bandwidth());  // report a wrong value now, not at the end
  ask_to_stop();
  OnGpu with = on;
  std::string backend(group.backend());
  int nccl_version = 0;
  if (on.gpu != nullptr) {
    backend = meet_on_gpus(group, *on.gpu);
    if (backend == "nccl") {
      if (with.nccl == nullptr) with.nccl = &nccl::open_module();
      with.nccl->get_version(&nccl_version);
    }
    DL_CHECK(!options.bare || backend == "nccl", kInvalidArgument,
             "--bare: memory of the GPUs does not go over NCCL here; the warning above says why");
  }
  const RunInfo info{.options = options,
                     .name = std::string(options.operation->name),
                     .backend = backend,
                     .plan = on.gpu == nullptr ? std::string(group.plan()) : std::string(),
                     .nccl_version = nccl_version,
                     .ranks = group.size(),
                     .who = gather_ranks(group, on.gpu),
                     .command = command};
  Run all(group, options, reports, with, backend == "nccl");
  for (const auto& report : reports) report->begin(info);
  for (std::size_t i = 0; (options.cycles == 0 || i < options.cycles) && all.cycle(); ++i) {
  }
  const Summary summary = all.summary();
  for (const auto& report : reports) report->end(summary);
  // With -a 0 the ranks have different times, so rank 0 decides for all of them.
  std::uint8_t failed = summary.wrong > 0 || !summary.is_fast_enough() ? 1 : 0;
  group.broadcast({.buffer = &failed, .count = 1, .dtype = DType::kU8})->wait();
  return failed;
}

}  // namespace dl::collectives::bench
