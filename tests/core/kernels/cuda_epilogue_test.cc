// Which of cuBLASLt's epilogues are asked for: the rules of epilogue.h, without a device.
#include "core/kernels/cuda/elementwise/epilogue.h"

#include <gtest/gtest.h>

namespace dl::kernels::cuda {
namespace {

constexpr Activation kAll[] = {Activation::kNone, Activation::kRelu, Activation::kGeluTanh};
constexpr DType kDTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

constexpr EpilogueCase of(DType dtype, std::int64_t columns = 64, int capability = 90) {
  return {.dtype = dtype, .compute_capability = capability, .columns = columns};
}

TEST(Epilogue, OfALayerAddsItsBiasAndDoesNoMoreThanWasAsked) {
  for (const DType dtype : kDTypes) {
    for (const Activation activation : kAll) {
      for (const bool bias : {false, true}) {
        for (const bool keeps : {false, true}) {
          const Epilogue e = forward_epilogue(of(dtype), bias, activation, keeps);
          EXPECT_EQ(adds_bias(e), bias && dtype != DType::kF64);
          EXPECT_FALSE(applies_gelu(e) && activation != Activation::kGeluTanh);
          EXPECT_FALSE(has_second_matrix(e) && !keeps);
        }
      }
    }
  }
}

TEST(Epilogue, OfGELUIsForShortTypesInRowsOfEights) {
  const auto asked = [](const EpilogueCase& c) {
    return forward_epilogue(c, true, Activation::kGeluTanh, true);
  };
  EXPECT_EQ(asked(of(DType::kF16)), Epilogue::kBiasGeluKeep);
  EXPECT_EQ(asked(of(DType::kBF16)), Epilogue::kBiasGeluKeep);
  EXPECT_EQ(asked(of(DType::kF32)), Epilogue::kBias);
  EXPECT_EQ(asked(of(DType::kF64)), Epilogue::kNone);
  EXPECT_EQ(asked(of(DType::kF16, 65)), Epilogue::kBias);
  EXPECT_EQ(asked(of(DType::kF16, 64, 86)), Epilogue::kBias);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kBF16), 10, Activation::kGeluTanh, false),
            Epilogue::kGeluGradient);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kBF16, 65), 10, Activation::kGeluTanh, false),
            Epilogue::kNone);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kF32), 10, Activation::kGeluTanh, false),
            Epilogue::kNone);
}

TEST(Epilogue, OfReLUIsItsGradientByAMaskInRowsOf128Bits) {
  EXPECT_EQ(forward_epilogue(of(DType::kF32, 5), true, Activation::kRelu, true), Epilogue::kBias);
  EXPECT_EQ(second_stride(Epilogue::kReluGradient, 1), 128);
  EXPECT_EQ(second_stride(Epilogue::kReluGradient, 128), 128);
  EXPECT_EQ(second_stride(Epilogue::kReluGradient, 129), 256);
  EXPECT_EQ(second_stride(Epilogue::kGeluGradient, 72), 72);
  EXPECT_EQ(relu_mask_row_bytes(129), 32);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kF32), 10, Activation::kRelu, true),
            Epilogue::kReluGradient);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kF32), 10, Activation::kRelu, false),
            Epilogue::kNone);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kF64), 10, Activation::kRelu, true), Epilogue::kNone);
  EXPECT_EQ(input_gradient_epilogue(of(DType::kF32), 1, Activation::kRelu, true), Epilogue::kNone);
}

TEST(Epilogue, OfTheBiasGradientIsForShortTypesThatAreWritten) {
  EXPECT_EQ(weight_gradient_epilogue(of(DType::kBF16, 7), 2, true), Epilogue::kBiasGradient);
  EXPECT_EQ(weight_gradient_epilogue(of(DType::kBF16, 7), 2, false), Epilogue::kNone);
  EXPECT_EQ(weight_gradient_epilogue(of(DType::kF32), 2, true), Epilogue::kNone);
  EXPECT_EQ(weight_gradient_epilogue(of(DType::kBF16), 1, true), Epilogue::kNone);
}

TEST(Epilogue, FallsBackToLessUntilThereIsNone) {
  for (std::int32_t i = 0; i <= static_cast<std::int32_t>(Epilogue::kBiasGradient); ++i) {
    auto e = static_cast<Epilogue>(i);
    for (int steps = 0; e != Epilogue::kNone; ++steps) {
      ASSERT_LT(steps, 3) << i;
      const Epilogue less = simpler(e);
      EXPECT_FALSE(adds_bias(less) && !adds_bias(e)) << i;
      EXPECT_FALSE(has_second_matrix(less)) << i;
      e = less;
    }
  }
}

}  // namespace
}  // namespace dl::kernels::cuda
