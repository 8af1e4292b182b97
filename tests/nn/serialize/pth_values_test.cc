// What torch.load(weights_only=True) takes beside tensors and plain values: others() in
// make_files.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/pth/pth.h"
#include "tests/nn/data/bytes.h"
#include "tests/nn/serialize/pth_files.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::ElementsAre;
using testing::ThrowsMessage;

std::string all_bytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::vector<std::string> texts_of(const Value& list) {
  std::vector<std::string> texts;
  for (const Value& each : list.as_list()) {
    texts.push_back(each.is_big_int() ? each.as_big_int().digits : each.as_string());
  }
  return texts;
}

void expect_others(const Value& file) {
  EXPECT_EQ(file.at("counter").find(2)->as_int(), 2);
  EXPECT_EQ(file.at("counter").find(5)->as_int(), 1);
  EXPECT_EQ(file.at("ordered").at("a").as_int(), 1);
  EXPECT_THAT(texts_of(file.at("devices")), ElementsAre("cpu", "cuda:1"));
  EXPECT_THAT(texts_of(file.at("dtypes")),
              ElementsAre("torch.float32", "torch.float8_e4m3fn", "torch.complex64"));
  EXPECT_EQ(file.at("layout").as_string(), "torch.strided");
  EXPECT_THAT(texts_of(file.at("integers")),
              ElementsAre("9223372036854775808", "18446744073709551615", "-9223372036854775809",
                          "-18446744073709551616",
                          "1606938044258990275541962092341162602522202993782792835301376",
                          "-1606938044258990275541962092341162602522202993782792835301376",
                          "1000000000000000000000000000000"));
  const Value::List& integers = file.at("integers").as_list();
  EXPECT_EQ(integers[1].as_uint64(), ~std::uint64_t{0});
  EXPECT_EQ(integers[4].as_float(), std::ldexp(1.0, 200));
  EXPECT_EQ(file.at("bytes").as_bytes(), all_bytes());
  EXPECT_EQ(file.at("bytearray").as_bytes(), std::string("\0\xff", 2));
  EXPECT_TRUE(file.at("set").is_set());
  EXPECT_EQ(file.at("set").as_list()[0].as_int(), 7);
  EXPECT_TRUE(file.at("empty_set").as_list().empty());
  EXPECT_EQ(file.at("complex").as_complex(), std::complex<double>(1.5, -2));
  const Value::Dict& keys = file.at("keys").as_dict();
  ASSERT_EQ(keys.size(), 7U);
  EXPECT_TRUE(keys[0].first.is_none());
  EXPECT_TRUE(keys[1].first.as_bool());
  EXPECT_EQ(keys[2].first.as_float(), 2.5);
  EXPECT_EQ(keys[3].first.as_list()[1].as_string(), "a");
  EXPECT_EQ(keys[4].first.as_big_int().digits, "18446744073709551616");
  EXPECT_EQ(keys[5].first.as_string(), "torch.float32");
  EXPECT_EQ(file.at("keys").find(3)->as_int(), 7);
  EXPECT_EQ(file.at("described").as_tensor().at<float>({1}), 2.0F);
  EXPECT_TRUE(file.at("stated").as_tensor().requires_grad());
}

TEST(PthValues, AllThatWeightsOnlyTakesIsRead) {
  for (const char* const name : {"others", "others4"}) {
    SCOPED_TRACE(name);
    expect_others(load_pth(torch_file(name)));
  }
}

TEST(PthValues, AllThatIsReadIsWritten) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  save_pth(path, load_pth(torch_file("others")));
  expect_others(load_pth(path));
}

TEST(PthValues, IntegersOfAnySizeKeepTheirBytes) {
  using BigInt = Value::BigInt;
  for (const char* const digits :
       {"0", "-1", "127", "128", "-128", "-129", "255", "256", "-32768", "9223372036854775808",
        "-9223372036854775809", "340282366920938463463374607431768211455"}) {
    EXPECT_EQ(BigInt::of_bytes(BigInt{digits}.bytes()).digits, digits);
  }
  EXPECT_EQ(BigInt{"-128"}.bytes(), "\x80");
  EXPECT_EQ(BigInt{"128"}.bytes(), std::string("\x80\0", 2));
  EXPECT_EQ(BigInt::of_bytes("").digits, "0");
  EXPECT_EQ(Value(BigInt{"-7"}).as_int(), -7);
  EXPECT_EQ(Value(~std::uint64_t{0}).as_uint64(), ~std::uint64_t{0});
  EXPECT_THAT([] { Value(BigInt{"0x1"}); },
              ThrowsMessage<Error>("Value: the digits of an integer are \"0x1\""));
  EXPECT_THAT(
      [] { Value(~std::uint64_t{0}).as_int(); },
      ThrowsMessage<Error>("Value: it is the int 18446744073709551615, which int64 does not "
                           "hold; ask as_uint64() or as_big_int()"));
  EXPECT_THAT([] { Value(-1).as_uint64(); },
              ThrowsMessage<Error>("Value: it is the int -1, wanted 0 to 2^64 - 1"));
}

}  // namespace
}  // namespace dl::nn
