// .npy files, against those that NumPy writes (tests/parity/make_arrays.py, npy()).
#include "nn/serialize/npy/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <span>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/serialize/npy/npy_header.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"
#include "tests/support/temp_dir.h"

namespace dl::nn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const parity::Arrays& npy_arrays() {
  static const parity::Arrays arrays("npy");
  return arrays;
}

std::string npy_bytes(const std::string& name) {
  const auto bytes = npy_arrays().get<std::uint8_t>(name + ".npy");
  return {bytes.begin(), bytes.end()};
}

class Npy : public testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }
  std::string path() const { return directory_.path() + "/x.npy"; }
  std::string written() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The text of load_npy's error, without the folder.
  std::string error_of(const std::string& bytes) const {
    write(bytes);
    try {
      load_npy(path());
    } catch (const Error& error) {
      return std::string(error.what()).substr(directory_.path().size() + 1);
    }
    return "none";
  }

 private:
  tests::TempDir directory_;
};

std::string raw(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

TEST_F(Npy, HoldsWhatNumPyWroteInEveryDtypeOrderAndVersion) {
  int files = 0;
  for (const std::string& name : npy_arrays().names()) {
    if (name.ends_with(".npy")) continue;
    const Tensor tensor = load_npy(write(npy_bytes(name)));
    const auto& shape = npy_arrays().shape(name);
    EXPECT_TRUE(std::ranges::equal(tensor.sizes(), shape)) << name;
    EXPECT_TRUE(tensor.is_contiguous()) << name;
    std::string dtype(short_name(tensor.dtype()));
    std::ranges::transform(dtype, dtype.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_EQ(dtype, npy_arrays().dtype(name)) << name;
    EXPECT_EQ(raw(tensor), npy_arrays().raw(name)) << name;
    ++files;
  }
  EXPECT_EQ(files, 28);
}

TEST_F(Npy, IsWrittenAsNumPyWritesIt) {
  for (const char* name : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool",
                           "scalar", "vector", "empty"}) {
    const Tensor tensor = load_npy(write(npy_bytes(name)));
    std::filesystem::remove(path());
    save_npy(path(), tensor);
    EXPECT_EQ(written(), npy_bytes(name)) << name;
  }
  save_npy(path(), load_npy(write(npy_bytes("f4"))).t());
  EXPECT_EQ(load_npy(path()).sizes(), Shape({4, 3}));
  EXPECT_EQ(load_npy(path()).at<float>({3, 0}), 0.0F);
}

TEST_F(Npy, RefusesByNameWhatDlrunDoesNotHave) {
  const std::map<std::string, std::string> refused = {
      {"complex", "\"<c8\" (complex numbers)"},
      {"text", "\"<U2\" (text)"},
      {"dates", "\"<M8[D]\" (dates)"},
      {"raw", "\"|V2\" (raw records)"},
      {"long_double", "\"<f16\" (floats of this width)"},
      {"objects", "\"|O\" (Python objects)"},
      {"records", "records of several fields"}};
  for (const auto& [name, text] : refused) {
    EXPECT_EQ(error_of(npy_bytes("refused_" + name)),
              "x.npy holds " + text + ", which dlrun does not have");
  }
  EXPECT_THAT([&] { save_npy(path(), ones({2}, {.dtype = DType::kBF16})); },
              ThrowsMessage<Error>(HasSubstr(
                  "x.npy: NumPy has no bfloat16; convert the tensor first: x.to(DType::kF32)")));
  EXPECT_THAT([&] { save_npy(path(), {}); },
              ThrowsMessage<Error>(HasSubstr("x.npy: the tensor is undefined")));
  EXPECT_THAT([&] { load_npy("/nowhere/x.npy"); },
              ThrowsMessage<Error>(HasSubstr("/nowhere/x.npy")));
}

std::string with_dictionary(const std::string& dictionary, std::size_t data_bytes) {
  std::string file("\x93NUMPY\1\0", 8);
  file += {static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return file + dictionary + std::string(data_bytes, '\0');
}

TEST_F(Npy, TakesADictionaryAsPythonMayWriteIt) {
  const std::string reordered = "{ \"shape\":(2L,3L,),'fortran_order' : False,\n'descr':'=f4' } ";
  EXPECT_EQ(load_npy(write(with_dictionary(reordered, 24))).sizes(), Shape({2, 3}));
}

// All that numpy.dtype() takes for a dtype that there is here (made with every name of
// numpy.sctypeDict and every letter).
TEST_F(Npy, TakesEverySpellingOfADTypeThatNumPyReads) {
  const auto bytes_of = [](DType dtype) { return static_cast<std::size_t>(size_of(dtype)); };
  const auto dtype_of = [&](const std::string& descr, DType wanted) {
    return load_npy(write(with_dictionary(
                        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,)}",
                        bytes_of(wanted))))
        .dtype();
  };
  const std::map<DType, std::vector<std::string>> codes = {
      {DType::kBool, {"?", "b1"}},
      {DType::kF16, {"e", "f2"}},
      {DType::kF32, {"f", "f4"}},
      {DType::kF64, {"d", "f8"}},
      {DType::kI8, {"b", "i1"}},
      {DType::kU8, {"B", "u1"}},
      {DType::kI16, {"h", "i2"}},
      {DType::kU16, {"H", "u2"}},
      {DType::kI32, {"i", "i4"}},
      {DType::kU32, {"I", "u4"}},
      {DType::kI64, {"l", "q", "p", "n", "i8"}},
      {DType::kU64, {"L", "Q", "P", "N", "u8"}}};
  for (const auto& [dtype, spellings] : codes) {
    for (const std::string& code : spellings) {
      for (const std::string order : {"", "<", ">", "=", "|"}) {
        EXPECT_EQ(dtype_of(order + code, dtype), dtype) << order << code;
      }
    }
  }
  const std::map<DType, std::vector<std::string>> names = {
      {DType::kBool, {"bool", "bool_"}},
      {DType::kF16, {"float16", "half"}},
      {DType::kF32, {"float32", "single"}},
      {DType::kF64, {"float64", "float", "double"}},
      {DType::kI8, {"int8", "byte"}},
      {DType::kU8, {"uint8", "ubyte"}},
      {DType::kI16, {"int16", "short"}},
      {DType::kU16, {"uint16", "ushort"}},
      {DType::kI32, {"int32", "intc"}},
      {DType::kU32, {"uint32", "uintc"}},
      {DType::kI64, {"int64", "int", "int_", "intp", "long", "longlong"}},
      {DType::kU64, {"uint64", "uint", "uintp", "ulong", "ulonglong"}}};
  for (const auto& [dtype, spellings] : names) {
    for (const std::string& name : spellings) {
      EXPECT_EQ(dtype_of(name, dtype), dtype) << name;
      EXPECT_THAT([&] { dtype_of("<" + name, dtype); }, ThrowsMessage<Error>(HasSubstr("does not")))
          << name;  // nor does NumPy
    }
  }
  const Tensor big =
      load_npy(write(with_dictionary("{'descr': '>q', 'fortran_order': False, 'shape': (1,)}", 0) +
                     std::string("\0\0\0\0\0\0\1\2", 8)));
  EXPECT_EQ(big.at<std::int64_t>({0}), 258);
}

TEST_F(Npy, SaysWhatIsWrongWithAFile) {
  const auto with = [&](const std::string& dictionary, std::size_t bytes = 4) {
    return error_of(with_dictionary(dictionary, bytes));
  };
  const auto shaped = [&](const std::string& shape, std::size_t bytes = 4) {
    return with("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", bytes);
  };
  EXPECT_EQ(error_of("PK\3\4 and more of it"),
            "x.npy is not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(error_of(""), "x.npy is not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\4\0\0\0", 10)),
            "x.npy is a .npy file of version 4.0, wanted 1.0, 2.0 or 3.0");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\2\0\0\0", 10)),
            "x.npy is truncated: it ends inside its .npy header");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\2\0\0\0\0\x7f", 12)),
            "x.npy announces a .npy header of 2130706432 bytes, wanted at most 1000000");
  EXPECT_EQ(error_of(npy_bytes("f4").substr(0, 60)),
            "x.npy is truncated: it ends inside its .npy header");
  EXPECT_EQ(shaped("(100000, 100000)"),
            "x.npy is truncated: its header announces 40000000000 bytes of elements, it has 4");
  EXPECT_EQ(shaped("(4000000000, 4000000000)"),
            "x.npy announces more elements than memory can address");
  EXPECT_THAT(shaped("(99999999999999999999,)"),
              HasSubstr("a size is larger than memory can address"));
  EXPECT_EQ(shaped("(0, 4294967296, 4294967296)"),
            "x.npy announces more elements than memory can address");
  std::string sizes;
  for (int i = 0; i < 65; ++i) sizes += "1,";
  EXPECT_THAT(shaped("(" + sizes + ")"), HasSubstr("more than 64 sizes"));
  EXPECT_EQ(shaped("(1,)", 28),
            "x.npy has 24 bytes beyond its array; files of several arrays cannot be read");
  EXPECT_THAT(shaped("(-1,)"),
              HasSubstr("x.npy has a damaged .npy header: a size is missing (at byte"));
  EXPECT_THAT(shaped("(1 1)"), HasSubstr("a comma between sizes is missing"));
  EXPECT_THAT(shaped("(1,), 'x': 1"), HasSubstr("the key \"x\" stands there"));
  EXPECT_THAT(shaped("(1,), 'x\nfake: line': 1"), HasSubstr("the key \"x\\x0afake: line\" stands"));
  EXPECT_THAT(shaped("(1,)} {"), HasSubstr("something follows the dictionary"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}"),
              HasSubstr("neither True nor False"));
  EXPECT_THAT(with("{'descr': '<f4', 'shape': ()}"),
              HasSubstr("descr, fortran_order or shape is missing"));
  EXPECT_THAT(with("{'descr': '<f4"), HasSubstr("a dtype has no end"));
  EXPECT_THAT(with("{'descr': '<q7', 'fortran_order': True, 'shape': ()}"),
              HasSubstr("\"<q7\" (a dtype that NumPy does not have)"));
  std::string flags = npy_bytes("bool");
  flags.back() = 7;
  EXPECT_EQ(error_of(flags), "x.npy holds bool and other bytes than 0 and 1");
}

// Any change of a byte, and any cut, gives a tensor or an error that names the file.
TEST_F(Npy, AnyDamageIsATensorOrAnError) {
  std::mt19937 random(1);
  const std::string whole = npy_bytes("fortran_cube");
  const std::size_t head = whole.size() - 24 * 4;
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string file = whole;
    for (std::uint32_t n = random() % 3; n-- > 0;)
      file[random() % head] = static_cast<char>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    const auto bytes = std::as_bytes(std::span(file));
    try {
      const std::uint64_t begin =
          npy_data_begin(bytes.first(std::min(bytes.size(), kNpyPrefix)), bytes.size(), "file");
      const NpyHeader header = parse_npy_header(bytes.first(begin), bytes.size() - begin, "file");
      std::uint64_t elements = 1;
      for (const std::int64_t size : header.shape) elements *= static_cast<std::uint64_t>(size);
      EXPECT_EQ(elements * size_of(header.dtype), bytes.size() - begin);
      ++read;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("file"));
    }
  }
  EXPECT_GT(read, 300);
}

}  // namespace
}  // namespace dl::nn
