#include "collectives/bench/measure/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

#include "collectives/algorithms/plan.h"
#include "collectives/call/checks.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/base/version.h"

namespace dl::collectives::bench {
namespace {

constexpr std::string_view kAll = "all";

// All three spellings of a dtype: the table's, PyTorch's and the short one.
std::map<std::string, DType> dtypes() {
  std::map<std::string, DType> names;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    names.emplace(table_name(dtype), dtype);
    names.emplace(name_of(dtype), dtype);
    names.emplace(short_name(dtype), dtype);
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

std::string operation_names() {
  std::string all;
  for (const Operation& each : operations()) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", each.name);
  }
  return all;
}

// The values of a name, or all values for "all". Throws kInvalidArgument with the known names.
template <typename T>
std::vector<T> look_up(const std::map<std::string, T>& names, const std::string& name,
                       std::string_view what) {
  std::vector<T> values;
  std::string all;
  for (const auto& [each, value] : names) {
    all += fmt::format("{}, ", each);
    if (name == each) return {value};
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  if (name == kAll) return values;
  throw_error(ErrorKind::kInvalidArgument, "no {} is called '{}'; there are {}all", what, name,
              all);
}

// nccl-tests' flags without a meaning here. They are accepted so that a command line works
// unchanged. If one has another value than `value`, dlbench says that it has no effect.
struct Idle {
  const char* flag;
  const char* long_flag;
  std::int64_t neutral;
  const char* why;
  const char* on_gpus;  // `why` on GPUs
  std::int64_t value;
};

std::vector<Idle> idle_flags() {
  constexpr const char* kRanks = "a rank is a process of one thread; start more with dlrun";
  constexpr const char* kGpus = "a rank is a process with one GPU; start more with dlrun";
  constexpr const char* kJoin = "all ranks join at once, always";
  constexpr const char* kWait = "every iteration is waited for, always";
  constexpr const char* kBackToBack = "only --back-to-back waits once, at the end";
  constexpr const char* kKernels = "there are no device kernels";
  constexpr const char* kPolicy = "NCCL_CTA_POLICY and NCCL_MAX_CTAS say that to NCCL";
  return {{"-g", "--ngpus", 1, kRanks, kGpus, 1},
          {"-t", "--nthreads", 1, kRanks, kGpus, 1},
          {"-p", "--parallel_init", 0, kJoin, kJoin, 0},
          {"-z", "--blocking", 0, kWait, kBackToBack, 0},
          {"-y", "--stream_null", 0, "CPUs have no streams", "a rank has a stream of its own", 0},
          {"-G", "--cudagraph", 0, "CPUs have no CUDA graphs", "calls are timed, not graphs", 0},
          {"-x", "--cta_policy", 0, "CPUs have no CTAs", kPolicy, 0},
          {"-D", "--device_implementation", 0, kKernels, kKernels, 0},
          {"-V", "--device_cta_count", 16, "CPUs have no CTAs", kKernels, 16},
          {"-M", "--memory", 0, "there is no GPU memory to report", "nvidia-smi reports it", 0}};
}

CLI::Validator whole(std::int64_t least, std::uint64_t most) {
  return {whole_number(least, most), ""};
}

// "64K" becomes "65536"; powers of 1024, with or without B or iB.
CLI::Validator size_from(std::uint64_t least) {
  static constexpr std::string_view kUnits = "kmgtp";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  return {[least](std::string& text) {
            std::uint64_t value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            std::string unit = CLI::detail::to_lower(end);
            if (unit.ends_with('b')) unit.pop_back();
            if (unit.size() == 2 && unit.ends_with('i')) unit.pop_back();
            const std::size_t place = unit.empty() ? 0 : kUnits.find(unit) + 1;
            const bool is_known = unit.empty() || (unit.size() == 1 && place > 0);
            if (error != std::errc{} || !is_known || value > kMost >> 10 * place ||
                value << 10 * place < least) {
              return fmt::format("'{}' is not a size from {} to 1P; wanted one like 8, 64K or 1G",
                                 text, least);
            }
            text = std::to_string(value << 10 * place);
            return std::string();
          },
          ""};
}

// Refuses an empty name: it usually means an unset variable in the calling script.
CLI::Validator some_name() {
  return {[](const std::string& text) { return text.empty() ? "an empty name" : std::string(); },
          ""};
}

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

struct Words {
  std::string operation;
  std::string dtype = "float";
  std::string reduction = "sum";
  std::string root = "0";
  std::string algorithm;
  std::int64_t timeout = 600;
  int average = 3;
  bool json = false;
  bool csv = false;
};

// The defaults of nccl-tests' programs: one size, and steps that are added.
void take_defaults_of_nccl_tests(Options& o) {
  o.min_bytes = o.max_bytes = std::size_t{32} << 20;
  o.step_factor = 1;
}

void declare(CLI::App& app, Options& o, Words& words, std::vector<Idle>& idle) {
  // Limits for memory: each iteration's time is kept, and unaligned buffers are larger.
  constexpr std::uint64_t kMostIterations = 10'000'000;
  constexpr std::uint64_t kMostCycles = 1'000'000'000;
  app.add_option("-b,--minbytes", o.min_bytes, "smallest size (8; 32M as *_perf)")
      ->transform(size_from(0));
  app.add_option("-e,--maxbytes", o.max_bytes, "largest size (64M; 32M as *_perf)")
      ->transform(size_from(0));
  auto* factor = app.add_option("-f,--stepfactor", o.step_factor,
                                "sizes are multiplied by this (4; as *_perf steps are added)")
                     ->transform(whole(2, 1 << 20));
  app.add_option("-i,--stepbytes", o.step_bytes, "this is added to sizes")
      ->transform(size_from(1))
      ->excludes(factor);
  app.add_option("-n,--iters", o.iterations, "iterations (by size, 25 to 1000)")
      ->transform(whole(0, kMostIterations));
  app.add_option("-w,--warmup_iters", o.warmup, "iterations that do not count (3)")
      ->transform(whole(0, kMostIterations));
  app.add_option("-m,--agg_iters", o.aggregate, "operations that an iteration starts at once (1)")
      ->transform(whole(1, 1024));
  app.add_option("-N,--run_cycles", o.cycles, "how often everything is run; 0: until stopped (1)")
      ->transform(whole(0, kMostCycles));
  app.add_option("-c,--check", o.check, "compare the results; 0: do not (1)")
      ->transform(whole(0, kMostIterations));
  app.add_option("-d,--datatype", words.dtype, "element type, or all (float)");
  app.add_option("-o,--op", words.reduction, "reduction, or all (sum)");
  app.add_option("-r,--root", words.root, "root of operations that have one, or all (0)");
  app.add_option("-a,--average", words.average,
                 "an iteration's time: 0 rank 0's, 1 the mean, 2 the least, 3 the most (3)")
      ->transform(whole(0, 3));
  app.add_option("-C,--report_cputime", o.call_time, "1: the time until the call has returned");
  app.add_option("-I,--per_iter_timing", o.per_iteration, "1: min, max, p99 and variation");
  app.add_option("-K,--per_iter_skip", o.skip, "first iterations that the figures leave out")
      ->transform(whole(0, kMostIterations));
  app.add_option("-S,--report_timestamps", o.timestamps, "1: the time of day in each row");
  app.add_option("-u,--unalign", o.unalign, "elements by which buffers are off their alignment")
      ->transform(whole(0, 1 << 20));
  app.add_option("-J,--output_file", o.output_file,
                 "also write nccl-tests' JSON (*.json) or a table (*.csv)")
      ->check(some_name());
  app.add_option("-T,--timeout", words.timeout, "deadline of an operation in seconds (600)")
      ->transform(whole(1, 1 << 30));
  for (Idle& each : idle) {
    app.add_option(fmt::format("{},{}", each.flag, each.long_flag), each.value,
                   fmt::format("no meaning on CPUs: {}", each.why));
  }
  app.add_option("--backend", o.backend, "auto, tcp, shm, hybrid, mpi or nccl (auto)")
      ->check([](const std::string& name) {
        for (const char* each : {"auto", "tcp", "shm", "hybrid", "mpi", "nccl"}) {
          if (name == each) return std::string();
        }
        return fmt::format("'{}' is not a backend; there are auto, tcp, shm, hybrid, mpi and nccl",
                           name);
      });
  app.add_option("--device", o.device,
                 "where the buffers are: cpu, cuda (the GPU that is this rank's) or cuda:N (cpu; "
                 "cuda with --backend nccl)")
      ->check([](const std::string& device) {
        const bool is_numbered = device.rfind("cuda:", 0) == 0 && device.size() > 5 &&
                                 device.size() < 8 &&
                                 device.find_first_not_of("0123456789", 5) == std::string::npos;
        return device == "cpu" || device == "cuda" || is_numbered
                   ? std::string()
                   : fmt::format("'{}' is not a device; there are cpu, cuda and cuda:N", device);
      });
  app.add_flag("--bare", o.bare,
               "with --device cuda, all_reduce: also ncclAllReduce without dlrun");
  app.add_option(
         "--algorithm", words.algorithm,
         "of the operation over TCP or MPI: direct, shares, ring, doubling, halving, tree, chain")
      ->check(some_name());
  app.add_option("--plan", o.plan, "file with the plan that picks algorithms, or default")
      ->check(some_name());
  auto* explain =
      app.add_flag("--explain", o.explain, "say which algorithm each size takes, and run nothing");
  app.add_option("--ranks", o.ranks, "with --explain: number of ranks (as launched)")
      ->transform(whole(1, 1 << 20))
      ->needs(explain);
  app.add_option("--nodes", o.nodes, "with --explain: number of nodes (as launched)")
      ->transform(whole(1, 1 << 20))
      ->needs(explain);
  app.add_flag("--tune", o.tune,
               "measure the machine in some seconds and write a plan into the file that -o names "
               "(~/.config/dlrun/plan); results may then differ in their last bits")
      ->excludes(explain);
  app.add_flag("--back-to-back", o.back_to_back,
               "nccl-tests' average: no rewriting and no barrier between operations");
  app.add_flag("--cold", o.cold, "empty the caches before each iteration");
  app.add_flag("--symmetric", o.symmetric,
               "buffers in symmetric memory, which all ranks of a node map");
  auto* json = app.add_flag("--json", words.json, "an object a size instead of the table");
  app.add_flag("--csv", words.csv, "comma-separated values instead of the table")->excludes(json);
  app.set_version_flag("--version", std::string(kVersion));
}

// Refuses an algorithm that the operation, or the sum of its dtype, does not have.
void take_algorithm(Options& o, const std::string& name) {
  const std::optional<OpKind> kind = o.operation->kind;
  std::string several;
  for (const OpRow& row : collectives::kOperations) {
    if (algorithms_of(row.op, false).size() < 2) continue;
    several += fmt::format("{}{}", several.empty() ? "" : ", ", row.name);
  }
  DL_CHECK(kind && algorithms_of(*kind, false).size() > 1, kInvalidArgument,
           "{} has one algorithm only; --algorithm is for {}", o.operation->name, several);
  o.algorithm = fmt::format("{}:{}", o.operation->name, name);
  static_cast<void>(with_algorithms({}, o.algorithm));
  if (o.dtypes.size() == 1 && o.reductions.size() == 1) {
    const Descriptor d{.op = *kind, .dtype = o.dtypes[0], .reduce = o.reductions[0]};
    std::string names;
    for (const Algorithm each : algorithms_of(*kind, wants_raw_shares(d))) {
      if (name_of(each) == name) return;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(each));
    }
    throw_error(ErrorKind::kInvalidArgument,
                "{} of {} {} cannot take '{}', because partial sums would be rounded; it has {}",
                o.operation->name, short_name(d.dtype), name_of(d.reduce), name, names);
  }
}

// Refuses options that have no meaning for GPU memory.
void check_gpu_options(const Options& o, const Words& words) {
  const auto refuse = [](bool is_asked, std::string_view flag, std::string_view why) {
    DL_CHECK(!is_asked, kInvalidArgument, "{} and --device cuda: {}", flag, why);
  };
  refuse(o.tune, "--tune", "a plan is for memory of the CPU");
  refuse(o.explain, "--explain", "NCCL chooses its algorithms itself; NCCL_DEBUG=INFO says which");
  refuse(!words.algorithm.empty(), "--algorithm", "NCCL_ALGO says that to NCCL");
  refuse(o.symmetric, "--symmetric", "symmetric memory is memory of the CPU");
  refuse(o.cold, "--cold", "it empties the caches of a CPU");
  refuse(o.backend == "mpi", "--backend mpi", "that group takes memory of the CPU only");
  refuse(words.operation == "floor", "floor",
         "it goes over TCP; all_reduce --bare times ncclAllReduce without dlrun");
}

// Interprets the words; throws kInvalidArgument and kDType.
void understand(Options& o, const Words& words, const std::vector<Idle>& idle) {
  if (o.backend == "nccl") o.device = o.on_gpu() ? o.device : "cuda";
  if (o.on_gpu()) check_gpu_options(o, words);
  if (o.tune) {
    DL_CHECK(words.operation.empty() && words.algorithm.empty(), kInvalidArgument,
             "--tune measures the machine, not an operation or an algorithm");
    o.timeout = std::chrono::seconds(words.timeout);
    return;
  }
  o.operation = find_operation(words.operation);
  DL_CHECK(!words.operation.empty(), kInvalidArgument, "an operation is missing; there are {}",
           operation_names());
  DL_CHECK(o.operation != nullptr, kInvalidArgument, "no operation is called '{}'; there are {}",
           words.operation, operation_names());
  DL_CHECK(o.min_bytes <= o.max_bytes, kInvalidArgument, "-b {} is more than -e {}", o.min_bytes,
           o.max_bytes);
  DL_CHECK(!o.bare || (o.on_gpu() && o.operation->name == "all_reduce"), kInvalidArgument,
           "--bare is for all_reduce --device cuda");
  o.dtypes = look_up(dtypes(), words.dtype, "datatype");
  o.reductions = look_up(reductions(), words.reduction, "reduction");
  if (words.root == kAll) {
    o.root.reset();
  } else {
    const std::optional<int> root = read_number<int>(words.root);
    DL_CHECK(root && *root >= 0, kInvalidArgument, "-r is '{}', wanted a rank or all", words.root);
    o.root = root;
  }
  const bool one_pair = o.dtypes.size() == 1 && o.reductions.size() == 1;
  if (one_pair && o.operation->reduces()) {
    check_reduction(o.dtypes[0], o.reductions[0], o.operation->name);
  }
  const std::size_t fewest = iterations_for(o, o.max_bytes);
  DL_CHECK(o.skip < fewest, kInvalidArgument, "-K {} leaves nothing of {} iterations", o.skip,
           fewest);
  DL_CHECK(!o.back_to_back || (!o.cold && !o.per_iteration && !o.call_time), kInvalidArgument,
           "--back-to-back has no single iterations; --cold, -I and -C ask for them");
  if (!words.algorithm.empty()) take_algorithm(o, words.algorithm);
  o.average = static_cast<Average>(words.average);
  o.timeout = std::chrono::seconds(words.timeout);
  o.format = words.json ? Format::kJson : words.csv ? Format::kCsv : Format::kTable;
  for (const Idle& each : idle) {
    if (each.value == each.neutral) continue;
    o.remarks.push_back(fmt::format("{} {} has no meaning {}: {}", each.flag, each.value,
                                    o.on_gpu() ? "here" : "on CPUs",
                                    o.on_gpu() ? each.on_gpus : each.why));
  }
}

}  // namespace

std::optional<int> parse(int argc, char** argv, Options& o) {
  CLI::App app(
      "dlbench: times collectives, in nccl-tests' way. Run it under dlrun:\n"
      "  dlrun --nproc-per-node 2 dlbench all_reduce -b 8 -e 64M -f 4\nAs all_reduce_perf, "
      "broadcast_perf, ... it takes "
      "nccl-tests' defaults.");
  o.program = base_name(argv[0]);
  Words words;
  if (const Operation* called = find_operation(o.program)) {
    words.operation = called->name;
    take_defaults_of_nccl_tests(o);
  } else {
    app.add_option("operation", words.operation, operation_names());
  }
  std::vector<Idle> idle = idle_flags();
  declare(app, o, words, idle);
  try {
    app.parse(argc, argv);
    if (app.count("-i") > 0) o.step_factor = 1;
    if (app.count("-o") > 0) o.tune_file = words.reduction;
    understand(o, words, idle);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return 2;
    require_written(stdout, "standard output");
    return 0;
  } catch (const Error& error) {
    dl::write_error(fmt::format("{}: {}\n", o.program, error.what()));
    return 2;
  }
  return std::nullopt;
}

void check_for_ranks(const Options& o, int ranks, int nodes) {
  if (o.tune) return;
  DL_CHECK(!o.operation->is_rooted() || !o.root || *o.root < ranks, kInvalidArgument,
           "-r {}: there are only {} ranks", *o.root, ranks);
  DL_CHECK(o.explain || o.operation->name != "sendrecv" || ranks > 1, kInvalidArgument,
           "sendrecv needs a neighbour; start it with dlrun --nproc-per-node 2 or more");
  DL_CHECK(!o.explain || nodes <= ranks, kInvalidArgument,
           "--explain: {} ranks cannot be on {} nodes", ranks, nodes);
}

std::size_t next_size(const Options& o, std::size_t bytes) noexcept {
  if (o.operation->expect == nullptr) return 0;
  if (o.step_factor == 1) return bytes + o.step_bytes <= o.max_bytes ? bytes + o.step_bytes : 0;
  const std::size_t from = std::max(bytes, std::size_t{1});
  return from <= o.max_bytes / o.step_factor ? from * o.step_factor : 0;
}

std::size_t iterations_for(const Options& o, std::size_t bytes) noexcept {
  if (o.iterations > 0) return o.iterations;
  // Emptying the caches takes longer than any of these operations.
  if (o.cold) return 25;
  if (bytes <= std::size_t{64} << 10) return 1000;
  if (bytes < std::size_t{4} << 20) return 200;
  return bytes < std::size_t{32} << 20 ? 50 : 25;
}

std::string_view table_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF16:
      return "half";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    default:
      return name_of(dtype);
  }
}

}  // namespace dl::collectives::bench
