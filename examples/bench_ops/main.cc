// bench_ops: how long single operations take on the CPU, beside PyTorch's (compare.py).
//
//     bench_ops [--threads N] [--clock wall|processor] [--only TEXT]
//
// Prints a line for each operation and size: its name, the number of elements, and seconds a call,
// the least mean of five series of calls.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/parallel.h"
#include "core/ops/activation.h"
#include "core/ops/arithmetic.h"
#include "core/ops/index.h"
#include "core/ops/order.h"
#include "core/ops/reduce.h"
#include "core/ops/softmax.h"
#include "core/tensor/factories.h"

namespace {

using dl::DType;
using dl::Tensor;

struct Row {
  std::string name;
  std::function<void()> call;
};

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const std::function<void()>& call, clockid_t clock) {
  constexpr double kSeries = 0.006;
  call();
  const double start = now(clock);
  call();
  const double one = std::max(1e-7, now(clock) - start);
  const int calls = std::clamp(static_cast<int>(kSeries / one), 1, 20'000);
  double least = std::numeric_limits<double>::infinity();
  for (int series = 0; series < 5; ++series) {
    const double begin = now(clock);
    for (int i = 0; i < calls; ++i) call();
    least = std::min(least, (now(clock) - begin) / calls);
  }
  return least;
}

// A matrix of `elements`: ten times as wide as high, or so.
std::vector<Row> rows_for(std::int64_t elements) {
  const std::int64_t high = elements == 1'000 ? 25 : elements == 100'000 ? 250 : 2'500;
  Tensor v = dl::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i) {
    v.data<float>()[i] = static_cast<float>((i * 37 + 11) % 6400) / 800.0F - 3.0F;
  }
  const Tensor m = v.view({high, -1});
  const Tensor narrow = v.view({-1, 10});
  const Tensor half = v.to(DType::kBF16);
  const Tensor leaf = m.clone().requires_grad_();
  const Tensor images = v.view({2, 4, -1}).permute({0, 2, 1});
  const Tensor sum = m.clone();
  return {
      {"sum", [=] { v.sum(); }},
      {"sum(0)", [=] { m.sum(0); }},
      {"sum(1)", [=] { m.sum(1); }},
      {"sum(0) of 10", [=] { narrow.sum(0); }},
      {"sum(1) of 10", [=] { narrow.sum(1); }},
      {"mean", [=] { v.mean(); }},
      {"mean(0)", [=] { m.mean(0); }},
      {"mean(1)", [=] { m.mean(1); }},
      {"prod", [=] { v.prod(); }},
      {"max", [=] { v.max(); }},
      {"max(0)", [=] { m.max(0); }},
      {"max(1)", [=] { m.max(1); }},
      {"argmax", [=] { v.argmax(); }},
      {"argmax(1)", [=] { m.argmax(1); }},
      {"amax(0)", [=] { m.amax(0); }},
      {"amax(1)", [=] { m.amax(1); }},
      {"var(0)", [=] { m.var(0); }},
      {"var(1)", [=] { m.var(1); }},
      {"std", [=] { v.std(); }},
      {"norm", [=] { v.norm(); }},
      {"norm(1)", [=] { m.norm(2, 1); }},
      {"logsumexp(1)", [=] { m.logsumexp(1); }},
      {"any(1)", [=] { m.any(1); }},
      {"cumsum(0)", [=] { m.cumsum(0); }},
      {"cumsum(1)", [=] { m.cumsum(1); }},
      {"sort(1)", [=] { m.sort(1); }},
      {"topk(10)", [=] { m.topk(10, 1); }},
      {"softmax(0)", [=] { softmax(m, 0); }},
      {"softmax(1)", [=] { softmax(m, 1); }},
      {"softmax(1) of 10", [=] { softmax(narrow, 1); }},
      {"log_softmax(0)", [=] { log_softmax(m, 0); }},
      {"log_softmax(1)", [=] { log_softmax(m, 1); }},
      {"softmax, backward",
       [=] {
         softmax(leaf, 1).backward(m);
         leaf.zero_grad();
       }},
      {"log_softmax, backward",
       [=] {
         log_softmax(leaf, 1).backward(m);
         leaf.zero_grad();
       }},
      {"transposed copy", [=] { m.t().contiguous(); }},
      {"channels-last copy", [=] { images.contiguous(); }},
      {"cat(0)", [=] { dl::cat({m, m}, 0); }},
      {"cat(-1)", [=] { dl::cat({m, m}, -1); }},
      {"to(bf16)", [=] { v.to(DType::kBF16); }},
      {"to(f32) of bf16", [=] { half.to(DType::kF32); }},
      {"add_ with alpha", [=] { Tensor(sum).add_(m, 0.5); }},
      {"gelu", [=] { gelu(m); }},
  };
}

int run(int argc, char** argv) {
  clockid_t clock = CLOCK_MONOTONIC;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view value = argv[i + 1];
    if (option == "--threads") {
      dl::set_num_threads(std::atoi(argv[i + 1]));
    } else if (option == "--clock" && value == "processor") {
      clock = CLOCK_PROCESS_CPUTIME_ID;
    } else if (option == "--only") {
      only = value;
    } else if (option != "--clock" || value != "wall") {
      std::fprintf(stderr, "bench_ops: unknown option %s %s\n", argv[i], argv[i + 1]);
      return 2;
    }
  }
  for (const std::int64_t elements : {1'000, 100'000, 10'000'000}) {
    for (const Row& row : rows_for(elements)) {
      if (row.name.find(only) == std::string::npos) continue;
      std::printf("%s|%lld|%.9f\n", row.name.c_str(), static_cast<long long>(elements),
                  seconds_of(row.call, clock));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_ops: %s\n", error.what());
    return 1;
  }
}
