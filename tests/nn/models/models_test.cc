#include <gtest/gtest.h>

#include "core/random/generator.h"
#include "nn/models/book.h"
#include "tests/nn/support.h"

namespace dl::nn::models {
namespace {

// Text, names and every initial value against the same network in PyTorch.
void expect_pytorchs(const std::string& name, const Module& model) {
  const parity::Arrays arrays("modules");
  EXPECT_EQ(model.str(), text_of(arrays, name + ".text"));
  std::string keys;
  for (const NamedTensor& entry : model.state_dict()) {
    keys += (keys.empty() ? "" : "\n") + entry.name;
    const std::string array = name + "." + entry.name;
    const Tensor head = entry.tensor.flatten().slice(0, 0, 8);
    EXPECT_EQ(values<float>(head), arrays.get<float>(array + ".head")) << array;
    EXPECT_EQ(sha256_of(entry.tensor), arrays.get<std::uint8_t>(array + ".sha256")) << array;
  }
  EXPECT_EQ(keys, text_of(arrays, name + ".keys"));
}

TEST(Models, MlpIsPyTorchs) {
  manual_seed(123);
  const Sequential model = mlp();
  EXPECT_EQ(model.count_parameters(), 2213);
  expect_pytorchs("mlp", model);
}

TEST(Models, BookCNNIsPyTorchs) {
  manual_seed(123);
  const Sequential model = book_cnn();
  EXPECT_EQ(model.count_parameters(), 1630090);
  expect_pytorchs("cnn", model);
}

TEST(Models, BookCNNOfCifarIsPyTorchs) {
  manual_seed(123);
  const Sequential model = book_cnn({.channels = 3, .size = 32});
  EXPECT_EQ(model.count_parameters(), 2122186);
  expect_pytorchs("cnn_cifar", model);
}

TEST(Models, BookCNNRefusesImagesThatVanish) {
  EXPECT_ERROR(book_cnn({.size = 3}), kInvalidArgument,
               "book_cnn: images of 3 x 3, wanted at least 4 x 4");
}

}  // namespace
}  // namespace dl::nn::models
