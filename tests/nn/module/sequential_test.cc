#include "nn/module/sequential.h"

#include <gtest/gtest.h>

#include "core/random/generator.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/layers/shape/shape.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

TEST(Sequential, NumbersOrNamesItsModules) {
  Sequential model{Linear(1, 2), {"act", ReLU()}, Linear(2, 1)};
  EXPECT_EQ(model.named_children()[0].name, "0");
  EXPECT_EQ(model.named_children()[1].name, "act");
  EXPECT_EQ(model.named_children()[2].name, "2");
  model.add(Identity());
  model.add("last", Identity());
  EXPECT_EQ(model.named_children()[3].name, "3");
  EXPECT_EQ(model.named_children()[4].name, "last");
  EXPECT_EQ(model.size(), 5u);
}

TEST(Sequential, DrawsInitialValuesInTheOrderOfItsList) {
  manual_seed(5);
  Sequential listed{Linear(3, 2), Linear(2, 4)};
  manual_seed(5);
  Sequential grown;
  grown.add(Linear(3, 2));
  grown.add(Linear(2, 4));
  for (const NamedTensor& p : grown.named_parameters()) {
    EXPECT_EQ(values<float>(listed.get_parameter(p.name)), values<float>(p.tensor)) << p.name;
  }
}

TEST(Sequential, MayHoldOneSequential) {
  Sequential outer;
  outer.add(Sequential{Identity()});
  EXPECT_EQ(outer.str(), "Sequential(\n  (0): Sequential(\n    (0): Identity()\n  )\n)");
}

TEST(Sequential, IsIndexedWithTypes) {
  Sequential model{Linear(1, 2), ReLU()};
  EXPECT_EQ(model.at<Linear>(0).out_features, 2);
  EXPECT_ERROR(model.at<Linear>(1), kInvalidArgument,
               "Sequential: module 1 is a ReLU, not what was asked for");
  EXPECT_ERROR(model[2], kIndex, "Sequential: there is no module 2 among 2");
}

TEST(Sequential, PassesItsInputThroughIfEmpty) {
  Sequential model;
  const Tensor x = tensor({1, 2});
  EXPECT_TRUE(model(x).is_same(x));
}

}  // namespace
}  // namespace dl::nn
