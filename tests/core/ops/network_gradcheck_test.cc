#include <gtest/gtest.h>

#define DL_GRADCHECK(operation)           \
  namespace dl::testing {                 \
  void gradcheck_##operation();           \
  }                                       \
  TEST(NetworkGradcheck, operation) {     \
    dl::testing::gradcheck_##operation(); \
  }

DL_GRADCHECK(conv2d)
DL_GRADCHECK(max_pool2d)
DL_GRADCHECK(matmul)
DL_GRADCHECK(linear)
DL_GRADCHECK(cross_entropy)
DL_GRADCHECK(mse_loss)
