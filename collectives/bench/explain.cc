#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "collectives/bench/measure/workload.h"
#include "collectives/bench/planner.h"
#include "collectives/shm/layout/plan.h"
#include "core/base/env.h"
#include "core/base/error.h"

namespace dl::collectives::bench {
namespace {

struct Way {
  std::string_view name;
  double seconds;
};

// Over shared memory no plan is used: the path follows from the operation, its size and the ranks.
// Its cost is that of copies and flags.
Way way_over_shm(const Descriptor& d, int ranks, const Link& link) {
  const bool is_oversubscribed = ranks > ::sysconf(_SC_NPROCESSORS_ONLN);
  const shm::Plan plan = shm::make_plan(d, d.count, ranks, is_oversubscribed);
  const auto parts = static_cast<double>(shm::parts_of(d.op, ranks));
  const double bytes = static_cast<double>(d.count * size_of(d.dtype)) * parts;
  const auto chunks = static_cast<double>(plan.chunks);
  switch (plan.path) {
    case shm::Path::kInline:
      return {name_of(plan.path), link.a};
    case shm::Path::kExchange:
      return {name_of(plan.path), 2 * link.a + bytes * (link.b + ranks * link.g)};
    case shm::Path::kDirect:
      return {name_of(plan.path), 2 * link.a + bytes * (link.b + link.g)};
    case shm::Path::kChunks:
      break;
  }
  return {name_of(plan.path), (chunks + 1) * link.a + bytes * (2 * link.b + link.g)};
}

std::string nanoseconds(double seconds) {
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

}  // namespace

void explain(const Options& o, const Plan& plan, GroupShape shape) {
  const std::optional<OpKind> op = o.operation->kind;
  DL_CHECK(op.has_value(), kInvalidArgument, "{} is not a collective and has no plan",
           o.operation->name);
  DL_CHECK(o.reductions.size() == 1, kInvalidArgument, "--explain takes one reduction at a time");
  const std::string asked =
      o.backend == "auto" ? env::get(env::Var::kBackend).value_or("auto") : o.backend;
  DL_CHECK(asked != "mpi", kInvalidArgument,
           "--explain: the costs know TCP and shared memory only, not MPI");
  const bool over_shm =
      asked == "shm" || (asked == "auto" && shape.nodes == 1 && o.algorithm.empty());
  const LinkKind kind = over_shm          ? LinkKind::kShm
                        : shape.nodes > 1 ? LinkKind::kEthernet
                                          : LinkKind::kLoopback;
  const Link& link = plan.link(kind);
  const Choices choices(plan, shape);
  const std::string_view backend = over_shm ? "shm" : "tcp";
  const bool json = o.format == Format::kJson;
  const auto line = [&](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
  };
  if (!json) {
    line(fmt::format("# {} over {} by plan {}: {} ranks on {} nodes", o.operation->name, backend,
                     plan.name, shape.ranks, shape.nodes));
    line(fmt::format(
        "# {}: latency {:.3g} us, further messages {:.3g} us, a byte {}, its reduction {}",
        name_of(kind), link.a * 1e6, link.o * 1e6, nanoseconds(link.b), nanoseconds(link.g)));
    line(fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>13}  {:>12}", "size", "count", "type",
                     "redop", "algorithm", "predicted"));
    line(fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>13}  {:>12}", "(B)", "(elements)", "", "",
                     "", "(us)"));
  }
  for (const DType dtype : o.dtypes) {
    for (std::size_t bytes = o.min_bytes;;) {
      const Shape what = shape_of(*o.operation, dtype, bytes, shape.ranks);
      const Descriptor d{.count = what.count,
                         .root = 0,
                         .op = *op,
                         .dtype = dtype,
                         .reduce = o.reductions.front()};
      const Algorithm algorithm = choices.choose(d);
      const Way way = over_shm ? way_over_shm(d, shape.ranks, link)
                               : Way{name_of(algorithm), cost(*op, algorithm, shape.ranks,
                                                              what.count * size_of(dtype), link)};
      const std::string_view reduction = o.operation->reduces() ? name_of(d.reduce) : "none";
      if (json) {
        line(fmt::format(
            "{{\"op\": \"{}\", \"backend\": \"{}\", \"algorithm\": \"{}\", \"plan\": \"{}\", "
            "\"ranks\": {}, \"nodes\": {}, \"bytes\": {}, \"count\": {}, \"dtype\": \"{}\", "
            "\"redop\": \"{}\", \"predicted_us\": {:.3f}}}",
            o.operation->name, backend, way.name, plan.name, shape.ranks, shape.nodes, what.bytes,
            what.count, short_name(dtype), reduction, way.seconds * 1e6));
      } else {
        line(fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>13}  {:>12.2f}", what.bytes, what.count,
                         table_name(dtype), reduction, way.name, way.seconds * 1e6));
      }
      bytes = next_size(o, bytes);
      if (bytes == 0) break;
    }
  }
}

}  // namespace dl::collectives::bench
