// What PyTorch prints for the same values; made by tests/parity/make_print_cases.py.
#include "core/tensor/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Print, IsPyTorchs) {
  EXPECT_EQ((tensor({1.0, 2.0, 3.0})).str(), R"(tensor([1., 2., 3.]))");
  EXPECT_EQ((tensor({1.5, -2.25, 0.0})).str(), R"(tensor([ 1.5000, -2.2500,  0.0000]))");
  EXPECT_EQ((tensor(3.14159)).str(), R"(tensor(3.1416))");
  EXPECT_EQ((tensor(7)).str(), R"(tensor(7))");
  EXPECT_EQ((tensor({1, -20, 300})).str(), R"(tensor([  1, -20, 300]))");
  EXPECT_EQ((tensor({true, false})).str(), R"(tensor([ True, False]))");
  EXPECT_EQ((tensor({1e-5, 1.0, 2000.0})).str(), R"(tensor([1.0000e-05, 1.0000e+00, 2.0000e+03]))");
  EXPECT_EQ((tensor({1e9, 1.0})).str(), R"(tensor([1.0000e+09, 1.0000e+00]))");
  EXPECT_EQ((tensor({0.00001})).str(), R"(tensor([1.0000e-05]))");
  EXPECT_EQ((tensor({nan, inf, -inf, 1.0})).str(), R"(tensor([nan, inf, -inf, 1.]))");
  EXPECT_EQ((tensor({nan, inf, 1.5})).str(), R"(tensor([   nan,    inf, 1.5000]))");
  EXPECT_EQ((tensor({nan, inf})).str(), R"(tensor([nan, inf]))");
  EXPECT_EQ((zeros({2, 3})).str(), R"(tensor([[0., 0., 0.],
        [0., 0., 0.]]))");
  EXPECT_EQ((zeros({2, 2, 2})).str(), R"(tensor([[[0., 0.],
         [0., 0.]],

        [[0., 0.],
         [0., 0.]]]))");
  EXPECT_EQ((arange(24).view({2, 3, 4})).str(), R"(tensor([[[ 0,  1,  2,  3],
         [ 4,  5,  6,  7],
         [ 8,  9, 10, 11]],

        [[12, 13, 14, 15],
         [16, 17, 18, 19],
         [20, 21, 22, 23]]]))");
  EXPECT_EQ(((arange(24) - 5).to(DType::kF32).view({2, 1, 3, 4})).str(),
            R"(tensor([[[[-5., -4., -3., -2.],
          [-1.,  0.,  1.,  2.],
          [ 3.,  4.,  5.,  6.]]],


        [[[ 7.,  8.,  9., 10.],
          [11., 12., 13., 14.],
          [15., 16., 17., 18.]]]]))");
  EXPECT_EQ((arange(0, 50)).str(),
            R"(tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
        36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49]))");
  EXPECT_EQ((arange(0, 50).to(DType::kF32) / 7.0).str(),
            R"(tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,
        3.8571, 4.0000, 4.1429, 4.2857, 4.4286, 4.5714, 4.7143, 4.8571, 5.0000,
        5.1429, 5.2857, 5.4286, 5.5714, 5.7143, 5.8571, 6.0000, 6.1429, 6.2857,
        6.4286, 6.5714, 6.7143, 6.8571, 7.0000]))");
  EXPECT_EQ((arange(0, 1001)).str(), R"(tensor([   0,    1,    2,  ...,  998,  999, 1000]))");
  EXPECT_EQ((arange(0, 1000)[999]).str(), R"(tensor(999))");
  EXPECT_EQ((arange(0, 2000).to(DType::kF32).view({40, 50}) / 16.0).str(),
            R"(tensor([[0.0000e+00, 6.2500e-02, 1.2500e-01,  ..., 2.9375e+00, 3.0000e+00,
         3.0625e+00],
        [3.1250e+00, 3.1875e+00, 3.2500e+00,  ..., 6.0625e+00, 6.1250e+00,
         6.1875e+00],
        [6.2500e+00, 6.3125e+00, 6.3750e+00,  ..., 9.1875e+00, 9.2500e+00,
         9.3125e+00],
        ...,
        [1.1562e+02, 1.1569e+02, 1.1575e+02,  ..., 1.1856e+02, 1.1862e+02,
         1.1869e+02],
        [1.1875e+02, 1.1881e+02, 1.1888e+02,  ..., 1.2169e+02, 1.2175e+02,
         1.2181e+02],
        [1.2188e+02, 1.2194e+02, 1.2200e+02,  ..., 1.2481e+02, 1.2488e+02,
         1.2494e+02]]))");
  EXPECT_EQ((arange(0, 4096).view({8, 8, 64})).str(),
            R"(tensor([[[   0,    1,    2,  ...,   61,   62,   63],
         [  64,   65,   66,  ...,  125,  126,  127],
         [ 128,  129,  130,  ...,  189,  190,  191],
         ...,
         [ 320,  321,  322,  ...,  381,  382,  383],
         [ 384,  385,  386,  ...,  445,  446,  447],
         [ 448,  449,  450,  ...,  509,  510,  511]],

        [[ 512,  513,  514,  ...,  573,  574,  575],
         [ 576,  577,  578,  ...,  637,  638,  639],
         [ 640,  641,  642,  ...,  701,  702,  703],
         ...,
         [ 832,  833,  834,  ...,  893,  894,  895],
         [ 896,  897,  898,  ...,  957,  958,  959],
         [ 960,  961,  962,  ..., 1021, 1022, 1023]],

        [[1024, 1025, 1026,  ..., 1085, 1086, 1087],
         [1088, 1089, 1090,  ..., 1149, 1150, 1151],
         [1152, 1153, 1154,  ..., 1213, 1214, 1215],
         ...,
         [1344, 1345, 1346,  ..., 1405, 1406, 1407],
         [1408, 1409, 1410,  ..., 1469, 1470, 1471],
         [1472, 1473, 1474,  ..., 1533, 1534, 1535]],

        ...,

        [[2560, 2561, 2562,  ..., 2621, 2622, 2623],
         [2624, 2625, 2626,  ..., 2685, 2686, 2687],
         [2688, 2689, 2690,  ..., 2749, 2750, 2751],
         ...,
         [2880, 2881, 2882,  ..., 2941, 2942, 2943],
         [2944, 2945, 2946,  ..., 3005, 3006, 3007],
         [3008, 3009, 3010,  ..., 3069, 3070, 3071]],

        [[3072, 3073, 3074,  ..., 3133, 3134, 3135],
         [3136, 3137, 3138,  ..., 3197, 3198, 3199],
         [3200, 3201, 3202,  ..., 3261, 3262, 3263],
         ...,
         [3392, 3393, 3394,  ..., 3453, 3454, 3455],
         [3456, 3457, 3458,  ..., 3517, 3518, 3519],
         [3520, 3521, 3522,  ..., 3581, 3582, 3583]],

        [[3584, 3585, 3586,  ..., 3645, 3646, 3647],
         [3648, 3649, 3650,  ..., 3709, 3710, 3711],
         [3712, 3713, 3714,  ..., 3773, 3774, 3775],
         ...,
         [3904, 3905, 3906,  ..., 3965, 3966, 3967],
         [3968, 3969, 3970,  ..., 4029, 4030, 4031],
         [4032, 4033, 4034,  ..., 4093, 4094, 4095]]]))");
  EXPECT_EQ((arange(0, 3000).view({3, 1000})).str(),
            R"(tensor([[   0,    1,    2,  ...,  997,  998,  999],
        [1000, 1001, 1002,  ..., 1997, 1998, 1999],
        [2000, 2001, 2002,  ..., 2997, 2998, 2999]]))");
  EXPECT_EQ((zeros({0})).str(), R"(tensor([]))");
  EXPECT_EQ((zeros({2, 0})).str(), R"(tensor([], size=(2, 0)))");
  EXPECT_EQ((zeros({0, 3}, {.dtype = DType::kI64})).str(),
            R"(tensor([], size=(0, 3), dtype=torch.int64))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kF16})).str(),
            R"(tensor([  1.,   2., 100.], dtype=torch.float16))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kBF16})).str(),
            R"(tensor([  1.,   2., 100.], dtype=torch.bfloat16))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kF64})).str(),
            R"(tensor([  1.,   2., 100.], dtype=torch.float64))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kI8})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.int8))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kU8})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.uint8))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kI16})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.int16))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kU16})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.uint16))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kI32})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.int32))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kU32})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.uint32))");
  EXPECT_EQ((tensor({1, 2, 100}, {.dtype = DType::kU64})).str(),
            R"(tensor([  1,   2, 100], dtype=torch.uint64))");
  EXPECT_EQ((tensor({0.1, 0.2, 1.0 / 3}, {.dtype = DType::kF64})).str(),
            R"(tensor([0.1000, 0.2000, 0.3333], dtype=torch.float64))");
  EXPECT_EQ((tensor({0.1, 0.2}, {.dtype = DType::kBF16})).str(),
            R"(tensor([0.1001, 0.2002], dtype=torch.bfloat16))");
  EXPECT_EQ((tensor({1.0, 2.0}, {.requires_grad = true})).str(),
            R"(tensor([1., 2.], requires_grad=True))");
  EXPECT_EQ((arange(0, 26).to(DType::kF64) / 8.0).str(),
            R"(tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,
        1.1250, 1.2500, 1.3750, 1.5000, 1.6250, 1.7500, 1.8750, 2.0000, 2.1250,
        2.2500, 2.3750, 2.5000, 2.6250, 2.7500, 2.8750, 3.0000, 3.1250],
       dtype=torch.float64))");
  EXPECT_EQ((arange(0, 12).to(DType::kF64) / 8.0).str(),
            R"(tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,
        1.1250, 1.2500, 1.3750], dtype=torch.float64))");
  EXPECT_EQ((relu(tensor({1.0, -2.0}, {.requires_grad = true}))).str(),
            R"(tensor([1., 0.], grad_fn=<ReluBackward0>))");
  EXPECT_EQ((log_softmax(ones({2, 2}, {.requires_grad = true}), 1)).str(),
            R"(tensor([[-0.6931, -0.6931],
        [-0.6931, -0.6931]], grad_fn=<LogSoftmaxBackward0>))");
  EXPECT_EQ((arange(6).view({2, 3}).t()).str(), R"(tensor([[0, 3],
        [1, 4],
        [2, 5]]))");
  EXPECT_EQ((ones({1, 1, 1, 1, 2})).str(), R"(tensor([[[[[1., 1.]]]]]))");
  EXPECT_EQ((tensor({-0.0, 0.0})).str(), R"(tensor([-0., 0.]))");
  EXPECT_EQ((tensor({99999.0, 100000.0})).str(), R"(tensor([ 99999., 100000.]))");
  EXPECT_EQ((tensor({0.5, 499.0})).str(), R"(tensor([  0.5000, 499.0000]))");
  EXPECT_EQ((ones({3, 30}) * 0.5).str(),
            R"(tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000],
        [0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000],
        [0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,
         0.5000, 0.5000, 0.5000]]))");
}

TEST(Print, GoesToAStream) {
  std::ostringstream out;
  out << tensor({1, 2}) << " " << Tensor();
  EXPECT_EQ(out.str(), "tensor([1, 2]) tensor(undefined)");
}

// Puts PyTorch's defaults back.
struct DefaultLook {
  ~DefaultLook() {
    set_printoptions({.precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80});
  }
};

TEST(Print, OptionsAreThoseOfPyTorch) {
  const DefaultLook restored;
  const Tensor shares = tensor({{9.9911e-01, 8.9419e-04}, {0.0491, 0.9509}});
  EXPECT_THAT(shares.str(), ::testing::StartsWith("tensor([[9.9911e-01, 8.9419e-04],"));
  set_printoptions({.sci_mode = false});
  EXPECT_EQ(shares.str(), R"(tensor([[0.9991, 0.0009],
        [0.0491, 0.9509]]))");
  set_printoptions({.sci_mode = true});
  EXPECT_EQ(tensor({1.0, 2.0}).str(), "tensor([1.0000e+00, 2.0000e+00])");
  EXPECT_EQ(tensor({0.5, 0.0}).str(), "tensor([5.0000e-01, 0.0000e+00])");
  EXPECT_EQ(zeros(2).str(), "tensor([0., 0.])");
  set_printoptions({.precision = 2, .sci_mode = true});
  EXPECT_EQ(tensor({1.123456, 2000.5}).str(), "tensor([1.12e+00, 2.00e+03])");
  set_printoptions({.threshold = 5, .edgeitems = 1});
  EXPECT_EQ(tensor({1.123456, 20.5}).str(), "tensor([ 1.12, 20.50])");  // what was not named stays
  EXPECT_EQ(arange(10).str(), "tensor([0,  ..., 9])");
  EXPECT_EQ(arange(12).view({4, 3}).str(), R"(tensor([[ 0,  ...,  2],
        ...,
        [ 9,  ..., 11]]))");
  set_printoptions({.linewidth = 20});
  EXPECT_EQ(arange(5).str(), R"(tensor([0, 1, 2, 3,
        4]))");
  EXPECT_EQ(tensor({1.0, 2.0}, {.requires_grad = true}).str(), R"(tensor([1., 2.],
       requires_grad=True))");
  EXPECT_EQ(get_printoptions().linewidth, 20);
  EXPECT_EQ(get_printoptions().precision, 2);
  EXPECT_EQ(get_printoptions().sci_mode, std::nullopt);
}

TEST(Print, ShowsShapesDtypesAndDevices) {
  std::ostringstream out;
  out << zeros(2, 3).sizes() << " " << zeros(2, 3).dtype() << " " << zeros(2, 3).device() << " "
      << Device{DeviceType::kCUDA, 1};
  EXPECT_EQ(out.str(), "[2, 3] float32 cpu cuda:1");
}

TEST(Print, RefusesOptionsThatMakeNoText) {
  EXPECT_THROW(set_printoptions({.precision = -1}), Error);
  EXPECT_THROW(set_printoptions({.threshold = -1}), Error);
  EXPECT_THROW(set_printoptions({.edgeitems = 0}), Error);
  EXPECT_THROW(set_printoptions({.linewidth = 0}), Error);
  EXPECT_EQ(get_printoptions().precision, 4);
}

}  // namespace
}  // namespace dl
