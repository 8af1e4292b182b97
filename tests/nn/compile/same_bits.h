#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().contiguous();
  const Tensor y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

// What two runs of a training left, call by call.
using Traces = std::vector<std::vector<Tensor>>;

inline void expect_same_traces(const Traces& expected, const Traces& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t call = 0; call < got.size(); ++call) {
    ASSERT_EQ(expected[call].size(), got[call].size()) << "call " << call;
    for (std::size_t i = 0; i < got[call].size(); ++i) {
      ASSERT_TRUE(same_bits(expected[call][i], got[call][i]))
          << "call " << call << ", tensor " << i;
    }
  }
}

}  // namespace dl
