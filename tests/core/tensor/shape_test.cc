#include "core/tensor/layout/shape.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"

namespace dl {
namespace {

TEST(Shape, CountsElementsAndRefusesTooMany) {
  EXPECT_EQ(element_count({}, "op"), 1);
  EXPECT_EQ(element_count({2, 3}, "op"), 6);
  EXPECT_EQ(element_count({INT64_MAX, 1, 0}, "op"), 0);
  EXPECT_ERROR(element_count({INT64_MAX, 4}, "op"), kShape,
               "op: the shape [9223372036854775807, 4] has too many elements");
  EXPECT_ERROR(element_count({2, -3}, "op"), kShape, "op: a size of the shape [2, -3] is negative");
  // Its strides would be too large.
  EXPECT_ERROR(element_count({0, INT64_MAX, 4}, "op"), kShape,
               "op: the shape [0, 9223372036854775807, 4] has too many elements");
  EXPECT_EQ(byte_count({2, 3}, DType::kF64, "op"), 48u);
  EXPECT_ERROR(byte_count({std::int64_t{1} << 60}, DType::kF64, "op"), kShape,
               "op: the shape [1152921504606846976] has too many bytes");
}

TEST(Shape, KnowsLayoutsAsPyTorchDoes) {
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 99, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_TRUE(is_contiguous({0, 3}, {7, 7}));
  EXPECT_TRUE(is_channels_last({2, 3, 4, 5}, channels_last_strides({2, 3, 4, 5})));
  EXPECT_FALSE(is_channels_last({2, 3, 4, 5}, contiguous_strides({2, 3, 4, 5})));
  EXPECT_TRUE(is_channels_last({2, 1, 4, 5}, contiguous_strides({2, 1, 4, 5})));
  EXPECT_TRUE(is_dense({2, 3}, {1, 2}));
  EXPECT_FALSE(is_dense({2, 3}, {4, 1}));
  EXPECT_FALSE(is_dense({2, 3}, {0, 1}));
}

TEST(Shape, BroadcastsByNumPysRules) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}, "add"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {0}, "add"), (Shape{0}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "add"), (Shape{0}));
  EXPECT_ERROR(broadcast_shapes({2, 3}, {2}, "add"), kShape,
               "add: the shapes [2, 3] and [2] cannot be broadcast together: 3 against 2 in "
               "dimension 1");
}

TEST(Shape, FindsViewsWhereTheyExist) {
  EXPECT_EQ(view_strides({2, 3, 4}, {12, 4, 1}, {6, 4}), (Strides{4, 1}));
  EXPECT_EQ(view_strides({3, 2}, {1, 3}, {6}), std::nullopt);
  EXPECT_EQ(view_strides({3, 2}, {1, 3}, {3, 1, 2}), (Strides{1, 6, 3}));
  EXPECT_EQ(view_strides({2, 3}, {6, 2}, {6}), (Strides{2}));
  EXPECT_EQ(view_strides({4, 3}, {0, 1}, {2, 2, 3}), (Strides{0, 0, 1}));
}

TEST(Shape, OrdersAResultAsItsOperands) {
  const auto of = [](const Shape& shape, std::initializer_list<Strides> operands) {
    return dense_strides(shape, std::span(operands.begin(), operands.size()));
  };
  EXPECT_EQ(of({3, 5}, {{1, 3}}), (Strides{1, 3}));
  EXPECT_EQ(of({3, 5}, {{2, 24}}), (Strides{1, 3}));         // gaps are closed
  EXPECT_EQ(of({3, 5}, {{1, 3}, {5, 1}}), (Strides{1, 3}));  // the first decides,
  EXPECT_EQ(of({3, 5}, {{0, 1}, {1, 3}}), (Strides{1, 3}));  // unless it is broadcast
  EXPECT_EQ(of({3, 5}, {{0, 1}, {1, 0}}), (Strides{5, 1}));  // nothing decides: row-major
  EXPECT_EQ(of({2, 3, 4}, {{1, 8, 2}}), (Strides{1, 8, 2}));
  EXPECT_EQ(of({4, 3, 5}, {{1, 0, 4}}), (Strides{1, 4, 12}));  // as PyTorch's sort leaves it
  EXPECT_EQ(of({3, 0}, {{1, 3}}), (Strides{1, 3}));
  EXPECT_EQ(of({}, {{}}), Strides());
}

TEST(Shape, SuggestsChannelsLastOnlyBeyondDoubt) {
  constexpr auto kLast = MemoryFormat::kChannelsLast;
  constexpr auto kRows = MemoryFormat::kContiguous;
  EXPECT_EQ(suggested_format({2, 3, 4, 5}, {60, 1, 15, 3}), kLast);
  EXPECT_EQ(suggested_format({2, 3, 4, 5}, {120, 1, 30, 6}), kLast);  // with gaps
  EXPECT_EQ(suggested_format({2, 3, 4, 5}, {60, 20, 5, 1}), kRows);
  EXPECT_EQ(suggested_format({2, 1, 4, 5}, {20, 20, 5, 1}), kRows);
  EXPECT_EQ(suggested_format({2, 1, 4, 5}, {20, 1, 5, 1}), kLast);
  EXPECT_EQ(suggested_format({2, 3, 1, 1}, {3, 1, 1, 1}), kRows);
  EXPECT_EQ(suggested_format({2, 3, 1, 1}, {3, 1, 3, 3}), kLast);
  EXPECT_EQ(suggested_format({2, 3, 4}, {12, 1, 3}), kRows);
}

TEST(Shape, InfersOneOpenSize) {
  EXPECT_EQ(infer_shape({-1, 3}, 6, "view"), (Shape{2, 3}));
  EXPECT_EQ(infer_shape({2, 3}, 6, "view"), (Shape{2, 3}));
  EXPECT_ERROR(infer_shape({-1, -1}, 6, "view"), kShape,
               "view: only one size may be -1; the shape is [-1, -1]");
  EXPECT_ERROR(infer_shape({-1, 4}, 6, "view"), kShape,
               "view: 6 elements do not fit the shape [-1, 4], whatever its open size");
  EXPECT_ERROR(infer_shape({4}, 6, "view"), kShape,
               "view: a tensor of 6 elements has no shape [4], which holds 4");
  EXPECT_ERROR(infer_shape({0, INT64_MAX, 4}, 0, "view"), kShape,
               "view: the shape [0, 9223372036854775807, 4] has too many elements");
  EXPECT_ERROR(infer_shape({-1, 0}, 0, "view"), kShape,
               "view: 0 elements do not fit the shape [-1, 0], whatever its open size");
}

TEST(Shape, CountsDimensionsFromTheEnd) {
  EXPECT_EQ(wrap_dim(-1, 3, "sum"), 2u);
  EXPECT_EQ(wrap_dim(0, 0, "sum"), 0u);
  EXPECT_ERROR(wrap_dim(3, 3, "sum"), kIndex,
               "sum: dimension 3 is out of range for a tensor of 3 dimensions; wanted -3 to 2");
}

}  // namespace
}  // namespace dl
