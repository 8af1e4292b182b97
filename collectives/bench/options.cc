#include "collectives/bench/options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "collectives/algorithms/reduce.h"
#include "core/base/error.h"
#include "core/base/version.h"

namespace dl::collectives::bench {
namespace {

// nccl-tests' names beside ours.
std::map<std::string, DType> dtypes() {
  std::map<std::string, DType> names = {{"float", DType::kF32},  {"half", DType::kF16},
                                        {"double", DType::kF64}, {"int8", DType::kI8},
                                        {"uint8", DType::kU8},   {"int32", DType::kI32},
                                        {"uint32", DType::kU32}, {"int64", DType::kI64},
                                        {"uint64", DType::kU64}, {"bfloat16", DType::kBF16}};
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    names.emplace(short_name(static_cast<DType>(i)), static_cast<DType>(i));
  }
  return names;
}

std::map<std::string, ReduceOp> reductions() {
  std::map<std::string, ReduceOp> names;
  for (std::size_t i = 0; i < kReduceOpCount; ++i) {
    names.emplace(name_of(static_cast<ReduceOp>(i)), static_cast<ReduceOp>(i));
  }
  return names;
}

std::map<std::string, OpKind> operations() {
  std::map<std::string, OpKind> names;
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllGather,
                          OpKind::kReduceScatter, OpKind::kBarrier}) {
    names.emplace(name_of(op), op);
  }
  return names;
}

// The value of a name; throws kInvalidArgument with the names that there are.
template <typename T>
T look_up(const std::map<std::string, T>& names, const std::string& name, std::string_view what) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  std::string all;
  for (const auto& [each, value] : names) all += (all.empty() ? "" : ", ") + each;
  throw_error(ErrorKind::kInvalidArgument, "no {} is called '{}'; there are {}", what, name, all);
}

}  // namespace

std::optional<int> parse(int argc, char** argv, Options& o) {
  CLI::App app(
      "dlbench: times collectives. Run it under dlrun: dlrun --nproc-per-node 2 dlbench "
      "all_reduce -b 8 -e 64M -f 4");
  const CLI::AsSizeValue bytes(false);
  std::string operation;
  std::string dtype(short_name(o.dtype));
  std::string reduction(name_of(o.reduce));
  app.add_option("operation", operation,
                 "all_reduce, broadcast, all_gather, reduce_scatter or barrier")
      ->required();
  app.add_option("-b,--minbytes", o.min_bytes, "smallest size (8)")->transform(bytes);
  app.add_option("-e,--maxbytes", o.max_bytes, "largest size (64M)")->transform(bytes);
  app.add_option("-f,--stepfactor", o.step_factor, "sizes are multiplied by this (4)")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("-i,--stepbytes", o.step_bytes, "or this is added")->transform(bytes);
  app.add_option("-n,--iters", o.iterations, "iterations (by size, 25 to 1000)");
  app.add_option("-w,--warmup_iters", o.warmup, "iterations that do not count (3)");
  app.add_option("-c,--check", o.check, "compare the results: 0 or 1 (1)");
  app.add_option("-d,--datatype", dtype, "element type (f32)");
  app.add_option("-o,--op", reduction, "reduction (sum)");
  app.add_option("-r,--root", o.root, "root of a broadcast (0)");
  app.add_option("--backend", o.backend, "auto or tcp");
  std::int64_t timeout = o.timeout.count();
  app.add_option("--timeout", timeout, "deadline of an operation in seconds (600)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  app.add_flag("--json", o.json, "an object a size instead of the table");
  app.set_version_flag("--version", std::string(kVersion));
  try {
    app.parse(argc, argv);
    o.op = look_up(operations(), operation, "operation");
    o.dtype = look_up(dtypes(), dtype, "datatype");
    o.reduce = look_up(reductions(), reduction, "reduction");
    DL_CHECK(o.min_bytes <= o.max_bytes, kInvalidArgument, "-b {} is more than -e {}", o.min_bytes,
             o.max_bytes);
    if (o.op == OpKind::kAllReduce || o.op == OpKind::kReduceScatter) {
      check_reduction(o.dtype, o.reduce, name_of(o.op));
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    fmt::print(stderr, "dlbench: {}\n", error.what());
    return 2;
  }
  o.timeout = std::chrono::seconds(timeout);
  return std::nullopt;
}

std::size_t next_size(const Options& o, std::size_t bytes) noexcept {
  if (o.op == OpKind::kBarrier) return 0;
  const std::size_t next =
      o.step_bytes > 0 ? bytes + o.step_bytes : std::max(bytes, std::size_t{1}) * o.step_factor;
  return next <= o.max_bytes ? next : 0;
}

std::size_t iterations_for(const Options& o, std::size_t bytes) noexcept {
  if (o.iterations > 0) return o.iterations;
  if (bytes <= std::size_t{64} << 10) return 1000;
  if (bytes < std::size_t{4} << 20) return 200;
  return bytes < std::size_t{32} << 20 ? 50 : 25;
}

}  // namespace dl::collectives::bench
