// Deferred layouts (core/tensor/layout/deferred.h): results that lie channels-last while they look,
// and are wherever memory is seen, as in PyTorch.
#include "core/tensor/layout/deferred.h"

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/autograd/record.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/norm/norm.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

constexpr auto kLast = MemoryFormat::kChannelsLast;

bool is_deferred(const Tensor& tensor) {
  return StoredOrder(tensor).is_deferred();
}

// [2, 3, 4, 5], row-major to see and channels-last underneath; the elements are 0, 1, 2, ... row by
// row.
Tensor numbered(DType dtype = DType::kF32) {
  const Tensor rows = arange(120).to(dtype).view({2, 3, 4, 5});
  const Tensor result = with_visible_format(rows.contiguous(kLast), MemoryFormat::kContiguous);
  EXPECT_TRUE(is_deferred(result));
  return result;
}

// The same tensor, whose memory was asked for.
Tensor looked_at(const Tensor& tensor) {
  tensor.data_ptr();
  return tensor;
}

using OneTensor = std::function<Tensor(const Tensor&)>;

std::map<std::string, OneTensor> image_operations() {
  const Tensor weight = random_tensor({6, 3, 3, 3}, DType::kF32, 2);
  const Tensor up = random_tensor({3, 4, 2, 2}, DType::kF32, 3);
  const auto conv = [=](const Tensor& x) { return conv2d(x, weight, {}, {.padding = {1, 1}}); };
  return {
      {"conv2d", conv},
      {"conv2d_relu",
       [=](const Tensor& x) { return conv2d(x, weight, {}, {.padding = {1, 1}, .relu = true}); }},
      {"conv_transpose2d",
       [=](const Tensor& x) { return conv_transpose2d(x, up, {}, {.stride = {2, 2}}); }},
      {"max_pool2d", [](const Tensor& x) { return max_pool2d(x, {.kernel = 2, .stride = 2}); }},
      {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, {.kernel = 2, .stride = 2}); }},
      {"adaptive", [](const Tensor& x) { return adaptive_avg_pool2d(x, {3, 2}); }},
      {"upsample", [](const Tensor& x) { return upsample2d(x, {.size = {9, 10}}); }},
      {"batch_norm",
       [=](const Tensor& x) { return batch_norm(conv(x), {}, {}, {}, {}, {.training = true}); }},
      {"relu", [=](const Tensor& x) { return relu(conv(x)); }},
      {"sum", [=](const Tensor& x) { return ones({6, 1, 8}) + conv(x); }},
      {"doubled", [=](const Tensor& x) { return conv(x) * 2; }},
      {"float64", [=](const Tensor& x) { return conv(x).to(DType::kF64); }},
      {"clone", [=](const Tensor& x) { return conv(x).clone(); }},
      {"cat", [=](const Tensor& x) { return cat({conv(x), conv(x)}, 1); }},
      {"where", [=](const Tensor& x) { return where(gt(conv(x), 0.0), conv(x), 0.0); }},
      {"in_place",
       [=](const Tensor& x) {
         Tensor y = conv(x);
         return y.add_(1).mul_(conv(x)).relu_();
       }},
      {"detach", [=](const Tensor& x) { return conv(x).detach(); }},
      {"part", [=](const Tensor& x) { return conv(x).narrow(0, 1, 2); }},
  };
}

// How the elements lie is PyTorch's, and they are those of the same operation on channels-last
// images, which are never deferred.
TEST(Deferred, ResultsOfImagesLookRowMajor) {
  const Tensor x = random_tensor({3, 3, 8, 8});
  for (const auto& [name, f] : image_operations()) {
    const Tensor wanted = f(x.contiguous(kLast));
    ASSERT_FALSE(is_deferred(wanted)) << name;
    const Tensor got = f(x);
    EXPECT_TRUE(is_deferred(got)) << name;
    EXPECT_TRUE(got.is_contiguous()) << name;
    EXPECT_FALSE(got.is_channels_last()) << name;
    EXPECT_EQ(got.strides(), contiguous_strides(got.sizes())) << name;
    const Tensor flat = got.view({got.size(0), -1});
    EXPECT_EQ(flat.storage(), got.storage()) << name;
    std::vector<double> walked;
    visit_floating(got.dtype(), "test", [&]<typename T>() {
      if constexpr (!kIsReduced<T>) {
        const T* const first = got.data<T>();
        walked.assign(first, first + got.numel());
      }
    });
    expect_near(wanted, walked, 1e-6);
    EXPECT_EQ(flat.data_ptr(), got.data_ptr()) << name;
    EXPECT_EQ(values<double>(f(x)), walked) << name;
  }
}

TEST(Deferred, WritesAreSeenThroughAllTensorsOverTheMemory) {
  for (const bool look_first : {false, true}) {
    const Tensor x = numbered();
    const Tensor rows = x.view({2, 60});
    const Tensor last = x.permute({0, 2, 3, 1});
    const Tensor apart = x.detach();
    if (look_first) looked_at(x);
    std::vector<float> wanted = values<float>(arange(120).to(DType::kF32));
    Tensor(x).mul_(2);  // in the source
    Tensor(last.select(3, 1)).add_(1000);
    Tensor(apart[1][2]).fill_(-1);
    for (int i = 0; i < 120; ++i) {
      auto& each = wanted[static_cast<std::size_t>(i)];
      each *= 2;
      if (i / 20 % 3 == 1) each += 1000;
      if (i / 20 == 5) each = -1;
    }
    EXPECT_EQ(is_deferred(x), !look_first);
    rows.data<float>()[7] = wanted[7] = 77;  // through a pointer, at home from here on
    EXPECT_FALSE(is_deferred(x));
    Tensor(rows.narrow(1, 59, 1)).mul_(3);  // a view that the source cannot show
    wanted[59] *= 3;
    wanted[119] *= 3;
    Tensor(x).sub_(5);
    for (float& each : wanted) each -= 5;
    for (const Tensor& each : {x, rows, apart, last.permute({0, 3, 1, 2})}) {
      EXPECT_EQ(values<float>(each), wanted);
      EXPECT_EQ(values<float>(each * 1), wanted);
      EXPECT_EQ(each.version(), x.version());
    }
  }
}

TEST(Deferred, TheAddressStaysTheSame) {
  const Tensor x = numbered();
  float* const first = x.data<float>();
  const Tensor shared = from_blob(first, {120}, DType::kF32);
  Tensor(x).add_(1);
  relu(x);
  EXPECT_EQ(x.data<float>(), first);
  EXPECT_EQ(x.detach().view({-1}).data<float>(), first);
  EXPECT_EQ(x.storage()->data(), first);
  EXPECT_EQ(x[1].data<float>(), first + 60);
  first[3] = 50;
  EXPECT_EQ(values<float>(x * 1), values<float>(shared));
  EXPECT_EQ((x * 1).at<float>({0, 0, 0, 3}), 50);
}

// Any view, read and written in the source or in the storage, behaves as over row-major memory.
TEST(Deferred, ViewsShowTheElementsOfRowMajorMemory) {
  std::mt19937 random(7);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  int deferred = 0;
  for (int round = 0; round < 4000; ++round) {
    Tensor x = numbered();
    Tensor plain = arange(120).to(DType::kF32).view({2, 3, 4, 5});
    const std::int64_t steps[] = {0, 1, 2, 5, 10, 15, 20, 40, 60, up_to(70)};
    Shape shape;
    Strides strides;
    std::int64_t room = 119;  // for steps behind the first element
    for (std::int64_t d = up_to(4); d > 0; --d) {
      const std::int64_t step = steps[up_to(9)];
      const std::int64_t size = 1 + up_to(std::min<std::int64_t>(5, step == 0 ? 3 : room / step));
      shape.push_back(size);
      strides.push_back(step);
      room -= (size - 1) * step;
    }
    const std::int64_t offset = up_to(room);
    const Tensor view = as_strided(x, shape, strides, offset);
    const Tensor wanted = as_strided(plain, shape, strides, offset);
    const bool at_home = !is_deferred(view);
    deferred += !at_home && view.numel() > 4 ? 1 : 0;
    ASSERT_EQ(values<float>(view * 2), values<float>(wanted * 2));
    ASSERT_EQ(sum(view).item<float>(), sum(wanted).item<float>());
    ASSERT_EQ((view * 2).strides(), (wanted * 2).strides());
    Tensor(view).fill_(-3);
    Tensor(wanted).fill_(-3);
    ASSERT_EQ(is_deferred(x), !at_home);
    ASSERT_EQ(values<float>(x + 0), values<float>(plain + 0));
    ASSERT_EQ(values<float>(view), values<float>(wanted));
  }
  EXPECT_GT(deferred, 200);
}

TEST(Deferred, OperandsThatOverlapTheDestinationAreReadFirst) {
  for (const bool look_first : {false, true}) {
    Tensor x = numbered();
    if (look_first) looked_at(x);
    const Tensor plain = arange(120).to(DType::kF32).view({2, 3, 4, 5});
    // A destination that the source can show, an operand that it cannot.
    x.select(0, 1).add_(x.view({120}).narrow(0, 30, 60).view({3, 4, 5}));
    plain.select(0, 1).add_(plain.view({120}).narrow(0, 30, 60).clone().view({3, 4, 5}));
    EXPECT_EQ(values<float>(x), values<float>(plain));
    Tensor y = numbered();
    if (look_first) looked_at(y);
    const Tensor before = y.clone();
    y.narrow(2, 1, 3).copy_(y.narrow(2, 0, 3));
    EXPECT_EQ(values<float>(y.narrow(2, 1, 3)), values<float>(before.narrow(2, 0, 3)));
  }
}

// The line of every tutorial: from images to rows, and back again with the gradient.
TEST(Deferred, GradientsPassThroughAViewOfRows) {
  const Tensor weight = random_tensor({4, 3, 3, 3}, DType::kF64, 2);
  const auto gradients = [&](const OneTensor& to_rows) {
    const Tensor x = random_tensor({2, 3, 6, 6}, DType::kF64).requires_grad_();
    const Tensor w = weight.clone().requires_grad_();
    const Tensor y = to_rows(max_pool2d(relu(conv2d(x, w)), {.kernel = 2, .stride = 2}));
    sum(y * arange(16).to(DType::kF64)).backward();
    return std::pair(x.grad(), w.grad());
  };
  const auto wanted = gradients([](const Tensor& y) {
    return y.contiguous(kLast).reshape({2, 16});  // a copy
  });
  const auto viewed = gradients([](const Tensor& y) { return y.view({y.size(0), -1}); });
  const auto looked = gradients([](const Tensor& y) { return looked_at(y).view({2, 16}); });
  for (const auto& got : {viewed, looked}) {
    EXPECT_TRUE(got.first.is_contiguous());
    expect_near(got.first, values<double>(wanted.first), 1e-12);
    expect_near(got.second, values<double>(wanted.second), 1e-12);
  }
}

TEST(Deferred, GradientsAreShownAsTheirTensorsAre) {
  const Tensor x = random_tensor({2, 3, 8, 8}).requires_grad_();
  const Tensor weight = random_tensor({3, 3, 3, 3}, DType::kF32, 2);
  const std::map<std::string, OneTensor> operations = {
      {"conv2d", [&](const Tensor& y) { return conv2d(y, weight); }},
      {"conv_transpose2d", [&](const Tensor& y) { return conv_transpose2d(y, weight, {}, {}); }},
      {"max_pool2d", [](const Tensor& y) { return max_pool2d(y, {.kernel = 2, .stride = 2}); }},
      {"avg_pool2d", [](const Tensor& y) { return avg_pool2d(y, {.kernel = 2, .stride = 2}); }},
      {"batch_norm",
       [&](const Tensor& y) {
         return batch_norm(conv2d(y, weight), {}, {}, {}, {}, {.training = true});
       }},
  };
  for (const auto& [name, f] : operations) {
    for (const bool last : {false, true}) {
      const Tensor y = last ? (x * 2).contiguous(kLast) : x * 2;
      Strides seen;
      y.register_hook([&](const Tensor& gradient) {
        seen = gradient.strides();
        return Tensor();
      });
      sum(f(y)).backward();
      EXPECT_EQ(seen, y.strides()) << name;
      EXPECT_TRUE(x.grad().is_contiguous()) << name;
    }
  }
}

// What a node saved is right, or the backward pass refuses, whether or not a look came in between.
TEST(Deferred, SavedTensorsKeepTheirValuesOrRefuse) {
  const Tensor w = random_tensor({3, 3, 3, 3}).requires_grad_();
  const Tensor image = random_tensor({1, 3, 8, 8});
  const auto wanted = [&] {
    w.zero_grad();
    sum(square(conv2d(sigmoid(conv2d(image, w)), w))).backward();
    return w.grad();
  }();
  enum class Write { kNone, kFast, kPointer };
  for (const bool look : {false, true}) {
    for (const Write write : {Write::kNone, Write::kFast, Write::kPointer}) {
      w.zero_grad();
      const Tensor h = conv2d(image, w);
      const Tensor y = sigmoid(h);    // saves its result
      const Tensor z = conv2d(y, w);  // saves its input
      const Tensor loss = sum(square(z));
      if (look) looked_at(y);
      if (write == Write::kFast) y.detach().add_(1);
      if (write == Write::kPointer) {
        y.data<float>()[0] = 100;
        y.bump_version();
      }
      if (write == Write::kNone) {
        loss.backward();
        expect_near(w.grad(), values<double>(wanted), 1e-5);
      } else {
        EXPECT_THROW(loss.backward(), Error);
      }
    }
  }
}

TEST(Deferred, ASourceThatANodeSavedIsNotOverwrittenAtHome) {
  const Tensor w = random_tensor({3, 3, 3, 3}).requires_grad_();
  const Tensor wide = random_tensor({5, 3, 3, 3}, DType::kF32, 4).requires_grad_();
  const Tensor image = random_tensor({1, 3, 8, 8});
  const auto gradient = [&](bool write) {
    wide.zero_grad();
    const Tensor y = conv2d(image, w.detach());
    const Tensor z = conv2d(y, wide);
    if (write) {
      looked_at(y);
      Tensor(y.detach()).fill_(0);
    }
    sum(z).backward();
    return values<float>(wide.grad());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Deferred, ThreadsThatLookAtOnceSeeOneMemory) {
  const Tensor weight = random_tensor({8, 3, 3, 3}, DType::kF32, 2);
  const Tensor x = random_tensor({2, 3, 16, 16});
  const std::vector<float> wanted = values<float>(conv2d(x.contiguous(kLast), weight));
  const std::vector<float> doubled = values<float>(conv2d(x.contiguous(kLast), weight) * 2);
  for (int round = 0; round < 20; ++round) {
    const Tensor y = conv2d(x, weight);
    std::barrier ready(4);
    std::vector<const void*> seen(4);
    std::vector<std::vector<float>> read(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        ready.arrive_and_wait();
        if (i % 2 == 0) seen[i] = y.view({-1}).data_ptr();
        read[i] = values<float>(i % 2 == 0 ? y : y * 2);
        if (i % 2 == 1) seen[i] = y.detach().data_ptr();
      });
    }
    for (std::thread& each : threads) each.join();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(seen[i], y.data_ptr());
      EXPECT_EQ(read[i], i % 2 == 0 ? wanted : doubled);
    }
  }
}

}  // namespace
}  // namespace dl
