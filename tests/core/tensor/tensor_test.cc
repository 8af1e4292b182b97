#include "core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/lifetime/hook_handle.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

TEST(Tensor, FactoriesGiveTheDtypesOfPyTorch) {
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::kI64);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), DType::kF32);
  EXPECT_EQ(tensor({true, false}).dtype(), DType::kBool);
  EXPECT_EQ(tensor(3.5).dim(), 0);
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(tensor({{{1, 2}}, {{3, 4}}, {{5, 6}}}).sizes(), (Shape{3, 1, 2}));
  EXPECT_EQ(tensor({1, 2}, {.dtype = DType::kBF16}).dtype(), DType::kBF16);
  EXPECT_EQ(full({2}, 7).dtype(), DType::kI64);
  EXPECT_EQ(zeros({2}).dtype(), DType::kF32);
  EXPECT_EQ(arange(5).dtype(), DType::kI64);
  EXPECT_EQ(arange(0, 1, 0.25).numel(), 4);
  EXPECT_EQ(values<float>(arange(1.0, 0.0, -0.5)), (std::vector<float>{1, 0.5}));
}

TEST(Tensor, ArangeOfIntegersIsExactUpToTheirLimits) {
  using Integers = std::vector<std::int64_t>;
  const auto integers = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    return values<std::int64_t>(arange(start, end, step));
  };
  EXPECT_EQ(integers(INT64_MAX - 2, INT64_MAX, 1), (Integers{INT64_MAX - 2, INT64_MAX - 1}));
  EXPECT_EQ(integers(INT64_MAX, INT64_MAX - 3, -1),
            (Integers{INT64_MAX, INT64_MAX - 1, INT64_MAX - 2}));
  constexpr std::int64_t kQuarter = std::int64_t{1} << 62;
  EXPECT_EQ(integers(INT64_MIN, INT64_MAX, kQuarter),
            (Integers{INT64_MIN, -kQuarter, 0, kQuarter}));
  EXPECT_EQ(integers(INT64_MAX, INT64_MIN, INT64_MIN), (Integers{INT64_MAX, -1}));
  // As doubles, both ends of the last step would be one number.
  EXPECT_EQ(integers(0, (std::int64_t{1} << 53) + 1, std::int64_t{1} << 53),
            (Integers{0, std::int64_t{1} << 53}));
  EXPECT_EQ(integers(INT64_MAX - 1, INT64_MAX - 1, 1), Integers{});
  EXPECT_ERROR(arange(INT64_MIN, INT64_MAX), kInvalidArgument,
               "arange: from -9.223372036854776e+18 to 9.223372036854776e+18 in steps of 1 are too "
               "many elements");
  EXPECT_ERROR(arange(0, 3, -1), kInvalidArgument, "arange: steps of -1 do not lead from 0 to 3");
  EXPECT_ERROR(arange(0, 3, 0), kInvalidArgument, "arange: from 0 to 3 in steps of 0 never ends");
}

TEST(Tensor, FactoriesRefuseWhatCannotBeCounted) {
  // So many bytes that 64 more would wrap around to a small block.
  EXPECT_ERROR(empty({(std::int64_t{1} << 61) - 4}, {.dtype = DType::kF64}), kShape,
               "empty: the shape [2305843009213693948] has too many bytes");
  EXPECT_ERROR(empty({0, INT64_MAX, 4}), kShape,
               "empty: the shape [0, 9223372036854775807, 4] has too many elements");
  // In its own name, though each takes its memory from empty().
  const Shape large{std::int64_t{1} << 62};
  EXPECT_ERROR(zeros(large), kShape, "zeros: the shape [4611686018427387904] has too many bytes");
  EXPECT_ERROR(ones(large), kShape, "ones: the shape [4611686018427387904] has too many bytes");
  EXPECT_ERROR(full(large, 1), kShape, "full: the shape [4611686018427387904] has too many bytes");
  EXPECT_ERROR(eye(std::int64_t{1} << 31), kShape,
               "eye: the shape [2147483648, 2147483648] has too many bytes");
  EXPECT_ERROR(rand(large), kShape, "rand: the shape [4611686018427387904] has too many bytes");
  EXPECT_ERROR(randint(0, 2, large), kShape,
               "randint: the shape [4611686018427387904] has too many bytes");
  EXPECT_ERROR(arange(0.0, 1e300), kInvalidArgument,
               "arange: from 0 to 1e+300 in steps of 1 are too many elements");
  float memory = 0;
  EXPECT_ERROR(from_blob(&memory, {3}, {INT64_MAX}, DType::kF32, Ref<RefCounted>()), kShape,
               "from_blob: the shape [3] with strides [9223372036854775807] is too large");
  EXPECT_ERROR(from_blob(&memory, {std::int64_t{1} << 62}, DType::kF32, Ref<RefCounted>()), kShape,
               "from_blob: the shape [4611686018427387904] has too many bytes");
}

TEST(Tensor, CopiesShareTheArray) {
  const Tensor a = zeros({3});
  const Tensor b = a;
  b.at<float>({1}) = 5;
  EXPECT_EQ(values<float>(a), (std::vector<float>{0, 5, 0}));
  EXPECT_TRUE(a.is_same(b));
}

TEST(Tensor, FromBlobUsesTheMemoryItWasGiven) {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  bool gone = false;
  {
    const Tensor t = from_blob(memory.data(), {2, 3}, DType::kF32, [&](void*) { gone = true; });
    const Tensor column = t.select(1, 1);
    EXPECT_EQ(values<float>(column), (std::vector<float>{2, 5}));
    column.at<float>({0}) = 20;
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
  EXPECT_EQ(memory[1], 20.f);
}

TEST(Tensor, ItemConvertsAndRefusesSeveralElements) {
  EXPECT_EQ(tensor(2.75).item<double>(), 2.75);
  EXPECT_EQ(tensor({{7}}).item<int>(), 7);
  EXPECT_EQ(tensor(true).item<float>(), 1.0f);
  EXPECT_ERROR(tensor({1, 2}).item<int>(), kShape,
               "item: a tensor of one element was wanted, its shape is [2]");
}

// A member, and a call of it that its arguments do not fail.
struct MemberCall {
  const char* name;
  void (*call)(Tensor& tensor);
};

const MemberCall kMemberCalls[] = {
    {"dim", [](Tensor& t) { t.dim(); }},
    {"sizes", [](Tensor& t) { t.sizes(); }},
    {"strides", [](Tensor& t) { t.strides(); }},
    {"size", [](Tensor& t) { t.size(0); }},
    {"stride", [](Tensor& t) { t.stride(0); }},
    {"numel", [](Tensor& t) { t.numel(); }},
    {"nbytes", [](Tensor& t) { t.nbytes(); }},
    {"dtype", [](Tensor& t) { t.dtype(); }},
    {"device", [](Tensor& t) { t.device(); }},
    {"device", [](Tensor& t) { t.is_cuda(); }},
    {"is_contiguous", [](Tensor& t) { t.is_contiguous(); }},
    {"is_contiguous", [](Tensor& t) { t.is_contiguous(MemoryFormat::kChannelsLast); }},
    {"is_channels_last", [](Tensor& t) { t.is_channels_last(); }},
    {"storage", [](Tensor& t) { t.storage(); }},
    {"storage_offset", [](Tensor& t) { t.storage_offset(); }},
    {"version", [](Tensor& t) { t.version(); }},
    {"bump_version", [](Tensor& t) { t.bump_version(); }},
    {"data_ptr", [](Tensor& t) { t.data_ptr(); }},
    {"data", [](Tensor& t) { t.data<float>(); }},
    {"item", [](Tensor& t) { t.item<float>(); }},
    {"item", [](Tensor& t) { t.item(); }},
    {"view", [](Tensor& t) { t.view({1}); }},
    {"reshape", [](Tensor& t) { t.reshape({1}); }},
    {"flatten", [](Tensor& t) { t.flatten(); }},
    {"transpose", [](Tensor& t) { t.transpose(0, 0); }},
    {"t", [](Tensor& t) { t.t(); }},
    {"permute", [](Tensor& t) { t.permute({0}); }},
    {"select", [](Tensor& t) { t.select(0, 0); }},
    {"select", [](Tensor& t) { t[0]; }},
    {"slice", [](Tensor& t) { t.slice(0, 0, 1); }},
    {"narrow", [](Tensor& t) { t.narrow(0, 0, 1); }},
    {"expand", [](Tensor& t) { t.expand({1}); }},
    {"squeeze", [](Tensor& t) { t.squeeze(); }},
    {"squeeze", [](Tensor& t) { t.squeeze(0); }},
    {"unsqueeze", [](Tensor& t) { t.unsqueeze(0); }},
    {"contiguous", [](Tensor& t) { t.contiguous(); }},
    {"clone", [](Tensor& t) { t.clone(); }},
    {"to", [](Tensor& t) { t.to(DType::kF64); }},
    {"to", [](Tensor& t) { t.to(Device{}); }},
    {"to", [](Tensor& t) { t.cpu(); }},
    {"cuda", [](Tensor& t) { t.cuda(0); }},
    {"cuda", [](Tensor& t) { t.cuda(); }},
    {"pin_memory", [](Tensor& t) { t.pin_memory(); }},
    {"is_pinned", [](Tensor& t) { t.is_pinned(); }},
    {"copy_", [](Tensor& t) { t.copy_(ones({1})); }},
    {"fill_", [](Tensor& t) { t.fill_(1); }},
    {"zero_", [](Tensor& t) { t.zero_(); }},
    {"add_", [](Tensor& t) { t.add_(ones({1})); }},
    {"add_", [](Tensor& t) { t.add_(1); }},
    {"sub_", [](Tensor& t) { t.sub_(ones({1})); }},
    {"mul_", [](Tensor& t) { t.mul_(ones({1})); }},
    {"mul_", [](Tensor& t) { t.mul_(1); }},
    {"div_", [](Tensor& t) { t.div_(ones({1})); }},
    {"div_", [](Tensor& t) { t.div_(1); }},
    {"requires_grad", [](Tensor& t) { t.requires_grad(); }},
    {"requires_grad_", [](Tensor& t) { t.requires_grad_(); }},
    {"is_leaf", [](Tensor& t) { t.is_leaf(); }},
    {"grad", [](Tensor& t) { t.grad(); }},
    {"set_grad", [](Tensor& t) { t.set_grad(ones({1})); }},
    {"zero_grad", [](Tensor& t) { t.zero_grad(); }},
    {"detach", [](Tensor& t) { t.detach(); }},
    {"register_hook", [](Tensor& t) { t.register_hook([](const Tensor& g) { return g; }); }},
    {"as_strided", [](Tensor& t) { as_strided(t, {1}, {1}, 0); }},
    {"empty_like", [](Tensor& t) { empty_like(t); }},
    {"zeros_like", [](Tensor& t) { zeros_like(t); }},
    {"ones_like", [](Tensor& t) { ones_like(t); }},
};

TEST(UndefinedTensor, RefusesEveryMemberByName) {
  for (const MemberCall& member : kMemberCalls) {
    Tensor moved = ones({1});
    const Tensor here = std::move(moved);
    for (Tensor tensor : {Tensor(), moved}) {  // NOLINT(bugprone-use-after-move)
      EXPECT_ERROR(member.call(tensor), kInvalidArgument,
                   std::string(member.name) +
                       ": the tensor is undefined (default constructed, or moved from); assign a "
                       "value first, or ask defined()");
    }
  }
}

TEST(UndefinedTensor, SaysWhatItIs) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_TRUE(none.is_same(Tensor()));
  EXPECT_EQ(none.impl(), nullptr);
  EXPECT_EQ(none.str(), "tensor(undefined)");
  EXPECT_ERROR(none.backward(), kInvalidArgument, "backward: the tensor is undefined");
}

TEST(Tensor, DataOfAnotherTypeIsRefusedByName) {
  EXPECT_ERROR(zeros({2}).data<double>(), kDType,
               "data: the tensor holds float32, float64 was asked for");
}

TEST(Tensor, AsStridedStaysInsideTheStorage) {
  const Tensor base = arange(6);
  EXPECT_EQ(values<std::int64_t>(as_strided(base, {2, 2}, {1, 3}, 1)),
            (std::vector<std::int64_t>{1, 4, 2, 5}));
  EXPECT_ERROR(as_strided(base, {2, 2}, {1, 3}, 2), kShape,
               "as_strided: the shape [2, 2] with strides [1, 3] from element 2 on reaches outside "
               "a storage of 6 elements");
  EXPECT_ERROR(as_strided(base, {2}, {-1}, 3), kShape, "as_strided: the strides [-1] are negative");
}

TEST(Tensor, VersionCountsWritesThroughAnyView) {
  Tensor a = zeros({4});
  const std::uint32_t before = a.version();
  a.select(0, 2).fill_(1);
  EXPECT_EQ(a.version(), before + 1);
  a.view({2, 2}).copy_(ones({2, 2}));
  EXPECT_EQ(a.version(), before + 2);
}

TEST(Dims, MoreThanSixEntriesGoToTheHeapAndBack) {
  Dims d{1, 2, 3, 4, 5, 6};
  d.push_back(7);
  d.push_back(8);
  EXPECT_EQ(d, (Dims{1, 2, 3, 4, 5, 6, 7, 8}));
  Dims copy = d;
  d.erase(0);
  d.insert(2, 99);
  EXPECT_EQ(d, (Dims{2, 3, 99, 4, 5, 6, 7, 8}));
  EXPECT_EQ(copy.size(), 8u);
  Dims moved = std::move(copy);
  copy = Dims{1};
  EXPECT_EQ(moved.back(), 8);
  moved = Dims{1, 2};
  EXPECT_EQ(moved.str(), "[1, 2]");
  const Tensor deep = ones({1, 2, 1, 2, 1, 2, 1, 2});
  EXPECT_EQ(deep.permute({7, 6, 5, 4, 3, 2, 1, 0}).contiguous().numel(), 16);
}

TEST(Half, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(5.9604645e-8f).bits, 0x0001);
  EXPECT_EQ(Half(2.0e-8f).bits, 0x0000);
  EXPECT_EQ(Half(-2.0f).bits, 0xc000);
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // halfway, to even
  EXPECT_TRUE(static_cast<float>(Half(NAN)) != static_cast<float>(Half(NAN)));
  EXPECT_TRUE(static_cast<float>(BFloat16(NAN)) != static_cast<float>(BFloat16(NAN)));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {  // every half survives a round trip
    Half h;
    h.bits = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7fff) > 0x7c00) continue;  // NaN
    ASSERT_EQ(Half(static_cast<float>(h)).bits, bits);
  }
}

}  // namespace
}  // namespace dl
