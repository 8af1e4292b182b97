// dlbench: nccl-tests for dlrun's groups. Prints a table (or an object a line) of one operation
// over a range of sizes; exit code 1 where an element was wrong.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "collectives/bench/measure.h"
#include "collectives/bench/options.h"
#include "collectives/init.h"
#include "core/base/error.h"
#include "core/base/version.h"

namespace dl::collectives::bench {
namespace {

void print_header(const Options& o, const ProcessGroup& group) {
  fmt::print(
      "# dlbench {}: {} on {}, {} ranks; an iteration's time is its slowest rank's, time is the "
      "p50\n",
      kVersion, name_of(o.op), group.backend(), group.size());
  fmt::print(
      "# {:>11} {:>12} {:>5} {:>6} {:>4} {:>13} | {:>10} {:>10} {:>8} {:>8} {:>6} | {:>10} {:>10} "
      "{:>8} {:>8} {:>6} | {:>9}\n",
      "size", "count", "type", "redop", "root", "algorithm", "time", "p99", "algbw", "busbw",
      "#wrong", "time", "p99", "algbw", "busbw", "#wrong", "rewrite");
  fmt::print("# {:>11} {:>12} {:>5} {:>6} {:>4} {:>13} | {:^46} | {:^46} | {:>9}\n", "(B)",
             "(elements)", "", "", "", "", "out of place (us, us, GB/s, GB/s)",
             "in place (us, us, GB/s, GB/s)", "(us)");
}

std::string columns(const Result& r) {
  // A wrong result has no speed.
  if (r.wrong > 0) {
    return fmt::format("{:>10.2f} {:>10.2f} {:>8} {:>8} {:>6}", r.p50_us, r.p99_us, "-", "-",
                       r.wrong);
  }
  return fmt::format("{:>10.2f} {:>10.2f} {:>8.3f} {:>8.3f} {:>6}", r.p50_us, r.p99_us, r.algbw,
                     r.busbw, r.wrong);
}

void print_row(const Options& o, int size, const Result& out, const Result& in) {
  const bool reduces = o.op == OpKind::kAllReduce || o.op == OpKind::kReduceScatter;
  fmt::print("{:>13} {:>12} {:>5} {:>6} {:>4} {:>13} | {} | {} | {:>9.2f}\n", out.bytes, out.count,
             short_name(o.dtype), reduces ? name_of(o.reduce) : "none",
             o.op == OpKind::kBroadcast ? o.root : -1, algorithm_of(o, out, size), columns(out),
             columns(in), out.rewrite_us);
}

void print_json(const Options& o, const ProcessGroup& group, const Result& r) {
  fmt::print(
      "{{\"op\": \"{}\", \"backend\": \"{}\", \"algorithm\": \"{}\", \"ranks\": {}, \"bytes\": {}, "
      "\"dtype\": \"{}\", \"in_place\": {}, \"p50_us\": {:.3f}, \"p99_us\": {:.3f}, \"max_us\": "
      "{:.3f}, \"algbw\": {:.6f}, \"busbw\": {:.6f}, \"rewrite_us\": {:.3f}, \"wrong\": {}}}\n",
      name_of(o.op), group.backend(), algorithm_of(o, r, group.size()), group.size(), r.bytes,
      short_name(o.dtype), r.in_place, r.p50_us, r.p99_us, r.max_us, r.wrong > 0 ? 0 : r.algbw,
      r.wrong > 0 ? 0 : r.busbw, r.rewrite_us, r.wrong);
}

int run(const Options& o) {
  init_process_group({.backend = o.backend, .timeout = o.timeout});
  const Ref<ProcessGroup> group = default_group();
  DL_CHECK(o.root >= 0 && o.root < group->size(), kInvalidArgument,
           "-r {} is no rank; there are {}", o.root, group->size());
  const bool speaks = group->rank() == 0;
  if (speaks && !o.json) print_header(o, *group);
  std::size_t wrong = 0;
  double busbw = 0;
  int rows = 0;
  for (std::size_t bytes = o.min_bytes;; bytes = next_size(o, bytes)) {
    const Result out = measure(*group, o, bytes, false);
    const Result in = measure(*group, o, bytes, true);
    wrong += out.wrong + in.wrong;
    busbw += out.busbw + in.busbw;
    rows += 2;
    if (speaks && o.json) {
      print_json(o, *group, out);
      print_json(o, *group, in);
    } else if (speaks) {
      print_row(o, group->size(), out, in);
    }
    std::fflush(stdout);
    if (next_size(o, bytes) == 0) break;
  }
  if (speaks && !o.json) {
    fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
    if (wrong == 0) fmt::print("# Avg bus bandwidth    : {:.6g}\n", busbw / rows);
  }
  destroy_process_group();
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dl::collectives::bench

int main(int argc, char** argv) {
  dl::collectives::bench::Options options;
  if (const auto end = dl::collectives::bench::parse(argc, argv, options)) return *end;
  return dl::collectives::bench::run(options);
}
