#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/serialize/safetensors.h"
#include "tests/core/support.h"
#include "tests/nn/data/bytes.h"

namespace dl::nn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::string_view kIndex = R"({"metadata": {"total_size": 12}, "weight_map": {
    "b": "model-2.safetensors", "a": "model-1.safetensors", "c": "model-1.safetensors"}})";

// A model in two files; the index is written by each test.
class ShardedSafetensors : public testing::Test {
 protected:
  ShardedSafetensors() {
    save_safetensors(folder_.path() + "/model-1.safetensors",
                     {{"a", tensor({1.0})}, {"c", tensor({3.0})}}, {{"format", "pt"}});
    save_safetensors(folder_.path() + "/model-2.safetensors", {{"b", tensor({2.0})}});
  }

  Safetensors load(std::string_view index) {
    return load_sharded_safetensors(
        folder_.write("model.safetensors.index.json", std::as_bytes(std::span(index))));
  }
  void expect_refused(std::string_view index, const std::string& text) {
    EXPECT_THAT([&] { load(index); }, ThrowsMessage<Error>(HasSubstr(text)));
  }

  data::TemporaryDirectory folder_{};
};

TEST_F(ShardedSafetensors, AllFilesAreRead) {
  const Safetensors whole = load(kIndex);
  ASSERT_EQ(whole.tensors.size(), 3U);
  EXPECT_EQ(find(whole.tensors, "a")->item(), 1.0);
  EXPECT_EQ(find(whole.tensors, "b")->item(), 2.0);
  EXPECT_EQ(find(whole.tensors, "c")->item(), 3.0);
  EXPECT_EQ(whole.metadata.at("format"), "pt");
  EXPECT_THAT(whole.path, testing::EndsWith("/model.safetensors.index.json"));
}

TEST_F(ShardedSafetensors, TheIndexAndTheFilesHaveToAgree) {
  expect_refused(R"({"weight_map": {"a": "model-1.safetensors"}})",
                 "tensor \"c\" is in model-1.safetensors, and not in the index");
  expect_refused(R"({"weight_map": {"b": "model-2.safetensors", "d": "model-2.safetensors"}})",
                 "tensor \"d\" is not in model-2.safetensors");
  expect_refused(R"({"weight_map": {"b": "model-3.safetensors"}})", "model-3.safetensors");
}

TEST_F(ShardedSafetensors, WrongIndexesAreRefused) {
  expect_refused("", "index.json: not JSON; is the file whole?");
  expect_refused(kIndex.substr(0, 40), "not JSON");
  for (const std::string_view text : {"[]", "{}", R"({"weight_map": []})"})
    expect_refused(text, "no object \"weight_map\" of tensors and files");
  for (const std::string_view name :
       {"7", R"("")", R"("..")", R"("../x")", R"("/etc/x")", R"("a\u0000b")", "null"})
    expect_refused(fmt::format(R"({{"weight_map": {{"a": {}}}}})", name), "tensor \"a\" has ");
}

TEST_F(ShardedSafetensors, ADeepIndexIsRefused) {
  constexpr std::size_t kDepth = 100'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  expect_refused(R"({"weight_map": {"a": )" + deep + "}}",
                 "tensor \"a\" has array, wanted the name of a file");
}

}  // namespace
}  // namespace dl::nn
