#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/factories.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

using testing::ElementsAre;

Sequential two_layers() {
  return {Linear(2, 3), Linear(3, 1)};
}

TEST(LoadStateDict, CopiesEveryValue) {
  Sequential from = two_layers();
  Sequential to = two_layers();
  const Tensor place = to.get_parameter("0.weight");
  EXPECT_NE(values<float>(place), values<float>(from.get_parameter("0.weight")));
  const IncompatibleKeys keys = to.load_state_dict(from.state_dict());
  EXPECT_TRUE(keys.missing.empty());
  EXPECT_TRUE(keys.unexpected.empty());
  EXPECT_TRUE(place.is_same(to.get_parameter("0.weight")));
  for (const NamedTensor& entry : from.state_dict()) {
    EXPECT_EQ(values<float>(*find(to.state_dict(), entry.name)), values<float>(entry.tensor));
  }
}

TEST(LoadStateDict, ConvertsDTypes) {
  Linear fc(1, 1, {.bias = false});
  fc.load_state_dict({{"weight", tensor({{0.5}}, {.dtype = DType::kF64})}});
  EXPECT_EQ(values<float>(fc.weight), std::vector<float>{0.5f});
}

TEST(LoadStateDict, ListsEverythingThatDoesNotFit) {
  Sequential model = two_layers();
  StateDict state = model.state_dict();
  const auto before = values<float>(model.get_parameter("0.bias"));
  state.erase(state.begin() + 3);   // 1.bias
  state.erase(state.begin());       // 0.weight
  state[0].tensor = zeros({3});     // 0.bias fits
  state[1].tensor = zeros({2, 3});  // 1.weight does not
  state.push_back({"extra", zeros({1})});
  EXPECT_ERROR(
      model.load_state_dict(state), kMismatch,
      "Error(s) in loading state_dict for Sequential:\n"
      "\tMissing key(s) in state_dict: \"0.weight\", \"1.bias\".\n"
      "\tUnexpected key(s) in state_dict: \"extra\".\n"
      "\tsize mismatch for 1.weight: copying a param with shape [2, 3] from checkpoint, the shape "
      "in current model is [1, 3].");
  EXPECT_EQ(values<float>(model.get_parameter("0.bias")), before) << "half a state was loaded";
}

// Names come from files.
TEST(LoadStateDict, ShowsControlBytesOfNamesAsTheirCode) {
  Sequential model = two_layers();
  StateDict state = model.state_dict();
  state.push_back({.name = std::string("0.w\0eight\nMissing", 17), .tensor = tensor({1.0f})});
  EXPECT_THAT([&] { model.load_state_dict(state); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "\n\tUnexpected key(s) in state_dict: \"0.w\\x00eight\\x0aMissing\".")));
}

TEST(LoadStateDict, NotStrictReportsAndLoadsTheRest) {
  Sequential model = two_layers();
  const IncompatibleKeys keys =
      model.load_state_dict({{"0.bias", ones({3})}, {"extra", zeros({1})}}, {.strict = false});
  EXPECT_THAT(keys.missing, ElementsAre("0.weight", "1.weight", "1.bias"));
  EXPECT_THAT(keys.unexpected, ElementsAre("extra"));
  EXPECT_EQ(values<float>(model.get_parameter("0.bias")), (std::vector<float>{1, 1, 1}));
  EXPECT_ERROR(model.load_state_dict({{"0.bias", ones({4})}}, {.strict = false}), kMismatch,
               "Error(s) in loading state_dict for Sequential:\n"
               "\tsize mismatch for 0.bias: copying a param with shape [4] from checkpoint, the "
               "shape in current model is [3].");
}

// As in files of safetensors.
TEST(LoadStateDict, TakesASharedTensorUnderOneOfItsNames) {
  Sequential model{Linear(2, 2, {.bias = false}), Linear(2, 2, {.bias = false})};
  model.at<Linear>(1).weight = model.at<Linear>(0).weight;
  for (const char* const name : {"0.weight", "1.weight"}) {
    model.load_state_dict({{name, full({2, 2}, name[0] - '0' + 3.0)}});
    EXPECT_EQ(values<float>(model.get_parameter("0.weight").detach()),
              std::vector<float>(4, static_cast<float>(name[0] - '0' + 3)));
  }
  EXPECT_ERROR(model.load_state_dict(StateDict()), kMismatch,
               "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: "
               "\"0.weight\", \"1.weight\".");
}

TEST(LoadStateDict, RefusesADamagedState) {
  Linear fc(1, 1, {.bias = false});
  EXPECT_ERROR(fc.load_state_dict({{"weight", Tensor()}}), kInvalidArgument,
               "load_state_dict: \"weight\" is an undefined tensor");
  EXPECT_ERROR(fc.load_state_dict({{"weight", ones({1, 1})}, {"weight", ones({1, 1})}}),
               kInvalidArgument, "load_state_dict: the state holds \"weight\" twice");
}

}  // namespace
}  // namespace dl::nn
