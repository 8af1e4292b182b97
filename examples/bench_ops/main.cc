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
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/parallel.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/embedding.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"

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

Tensor numbers(std::int64_t elements) {
  Tensor v = dl::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i) {
    v.data<float>()[i] = static_cast<float>((i * 37 + 11) % 6400) / 800.0F - 3.0F;
  }
  return v;
}

// In no order. numbers() rise for 173 elements at a time, which a sort that merges takes as they
// are.
Tensor mixed_numbers(std::int64_t elements) {
  Tensor v = dl::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i) {
    v.data<float>()[i] =
        static_cast<float>(i * 2'654'435'761 % 4'294'967'296) / 2'147'483'648.0F - 1.0F;
  }
  return v;
}

// Ten times as wide as high, or so.
Tensor as_matrix(const Tensor& v) {
  return v.view({v.numel() == 1'000 ? 25 : v.numel() == 100'000 ? 250 : 2'500, -1});
}

std::vector<Row> reductions_and_copies(std::int64_t elements) {
  const Tensor v = numbers(elements);
  const Tensor m = as_matrix(v);
  const Tensor other = m.clone();
  const Tensor mixed = as_matrix(mixed_numbers(elements));
  const Tensor narrow = v.view({-1, 10});
  const Tensor half = v.to(DType::kBF16);
  const Tensor leaf = m.clone().requires_grad_();
  const Tensor images = v.view({2, 4, -1}).permute({0, 2, 1});
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
      {"sort(1), mixed", [=] { mixed.sort(1); }},
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
      {"cat(0)", [=] { dl::cat({m, other}, 0); }},
      {"cat(-1)", [=] { dl::cat({m, other}, -1); }},
      {"to(bf16)", [=] { v.to(DType::kBF16); }},
      {"to(f32) of bf16", [=] { half.to(DType::kF32); }},
  };
}

std::vector<Row> elementwise(std::int64_t elements, DType dtype) {
  const Tensor m = as_matrix(numbers(elements)).to(dtype);
  const Tensor n = (m + 0.25).to(dtype);
  const Tensor sum = m.clone();
  const Tensor positive = m.abs().add(0.5).to(dtype);
  std::vector<Row> rows{
      {"add", [=] { m.add(n); }},
      {"mul", [=] { m.mul(n); }},
      {"div", [=] { m.div(n); }},
      {"add a number", [=] { m.add(0.5); }},
      {"add_ with alpha", [=] { Tensor(sum).add_(m, 0.5); }},
      {"maximum", [=] { m.maximum(n); }},
      {"lt", [=] { m.lt(n); }},
      {"relu", [=] { m.relu(); }},
      {"sigmoid", [=] { m.sigmoid(); }},
      {"tanh", [=] { m.tanh(); }},
      {"silu", [=] { m.silu(); }},
      {"gelu", [=] { gelu(m); }},
      {"exp", [=] { m.exp(); }},
      {"log", [=] { positive.log(); }},
      {"sqrt", [=] { positive.sqrt(); }},
  };
  if (dtype == DType::kBF16) {
    for (Row& row : rows) row.name += " bf16";
  }
  return rows;
}

std::vector<Row> normalisations(std::int64_t elements) {
  const Tensor m = as_matrix(numbers(elements));
  const dl::Shape width{m.size(1)};
  const Tensor w = dl::ones(width);
  const Tensor b = dl::zeros(width);
  const dl::Shape image = elements == 1'000     ? dl::Shape{5, 8, 5, 5}
                          : elements == 100'000 ? dl::Shape{10, 16, 25, 25}
                                                : dl::Shape{25, 64, 50, 125};
  const Tensor x = numbers(elements).view(image);
  const Tensor last = x.contiguous(dl::MemoryFormat::kChannelsLast);
  const Tensor scale = dl::ones({image[1]});
  const Tensor shift = dl::zeros({image[1]});
  const Tensor mean = dl::zeros({image[1]});
  const Tensor var = dl::ones({image[1]});
  const auto trained = [=](const Tensor& input) {
    const Tensor leaf = input.detach().requires_grad_();
    const Tensor scales = scale.clone().requires_grad_();
    const Tensor shifts = shift.clone().requires_grad_();
    return [=] {
      batch_norm(leaf, mean, var, scales, shifts, {.training = true}).backward(input);
      for (const Tensor& each : {leaf, scales, shifts}) each.set_grad({});
    };
  };
  const Tensor leaf = m.detach().requires_grad_();
  const Tensor images = x.detach().requires_grad_();
  return {
      {"layer_norm", [=] { layer_norm(m, width, w, b); }},
      {"layer_norm, backward",
       [=] {
         layer_norm(leaf, width, w, b).backward(m);
         leaf.set_grad({});
       }},
      {"rms_norm", [=] { rms_norm(m, width, w); }},
      {"group_norm", [=] { group_norm(x, 4, scale, shift); }},
      {"group_norm, backward",
       [=] {
         group_norm(images, 4, scale, shift).backward(x);
         images.set_grad({});
       }},
      {"batch_norm, eval", [=] { batch_norm(x, mean, var, scale, shift); }},
      {"batch_norm, backward", trained(x)},
      {"batch_norm, eval, channels-last", [=] { batch_norm(last, mean, var, scale, shift); }},
      {"batch_norm, backward, channels-last", trained(last)},
  };
}

std::vector<Row> products_and_indices(std::int64_t elements) {
  const Tensor m = as_matrix(numbers(elements));
  const Tensor v = numbers(elements);
  const Tensor t = m.t().contiguous();
  const Tensor places = dl::remainder(dl::arange(elements).mul(7919), m.size(1)).view(m.sizes());
  const Tensor rows = dl::remainder(dl::arange(m.size(0)).mul(7), m.size(0));
  const Tensor columns = dl::remainder(dl::arange(m.size(1)).mul(7), m.size(1));
  const Tensor mask = m.gt(0);
  const Tensor into = m.clone();
  std::vector<Row> result{
      {"matmul", [=] { matmul(m, t); }},
      {"mv", [=] { matmul(m, v.narrow(0, 0, m.size(1))); }},
      {"gather(1)", [=] { gather(m, 1, places); }},
      {"scatter(1)", [=] { scatter(m, 1, places, m); }},
      {"scatter_add_(1)",
       [=] {
         Tensor sums = into;
         scatter_add_(sums, 1, places, m);
       }},
      {"index_select(0)", [=] { index_select(m, 0, rows); }},
      {"index_select(1)", [=] { index_select(m, 1, columns); }},
      {"embedding", [=] { embedding(m, rows); }},
      {"where", [=] { where(mask, m, into); }},
  };
  const auto step = [&]<typename Optimizer>(const char* name, auto options) {
    const Tensor parameter = v.clone().requires_grad_();
    parameter.set_grad(v.mul(0.01));
    const auto optimizer = std::make_shared<Optimizer>(std::vector{parameter}, options);
    result.push_back({name, [optimizer] { optimizer->step(); }});
  };
  using namespace dl::optim;
  step.operator()<SGD>("SGD, momentum", SGDOptions{.lr = 1e-4, .momentum = 0.9});
  step.operator()<Adam>("Adam", AdamOptions{.lr = 1e-4});
  step.operator()<AdamW>("AdamW", AdamWOptions{.lr = 1e-4});
  return result;
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
    const auto time_all = [&](const std::vector<Row>& rows) {
      for (const Row& row : rows) {
        if (row.name.find(only) == std::string::npos) continue;
        std::printf("%s|%lld|%.9f\n", row.name.c_str(), static_cast<long long>(elements),
                    seconds_of(row.call, clock));
        std::fflush(stdout);
      }
    };
    time_all(reductions_and_copies(elements));
    time_all(elementwise(elements, DType::kF32));
    time_all(elementwise(elements, DType::kBF16));
    time_all(normalisations(elements));
    time_all(products_and_indices(elements));
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
