// Files that are not what they should be: each is one sentence that begins with the file's name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/pth/pth.h"
#include "tests/nn/data/bytes.h"
#include "tests/nn/serialize/pth_files.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using namespace std::string_literals;

const std::string kFour(16, '\0');  // the elements of pickled_storage()

void expect_refused(const std::string& path, const std::string& text, LoadPthOptions options = {}) {
  EXPECT_THAT([&] { load_pth(path, options); },
              ThrowsMessage<Error>(AllOf(StartsWith(path), HasSubstr(text))))
      << text;
}

// A tensor of four elements, and the last argument of _rebuild_tensor_v2.
std::string with_metadata(const std::string& metadata) {
  std::string tensor = pickled_tensor(0, {4}, {1});
  return tensor.insert(tensor.size() - 2, metadata);
}

TEST(PthErrors, FilesOfOtherKinds) {
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"module",
            ": data.pkl names \"torch.nn.modules.linear.Linear\", which "
            "torch.load(weights_only=True) refuses, too; in Python save model.state_dict(), not "
            "the model, and other objects as texts, numbers, lists and dicts"},
           {"complex",
            ": data.pkl has tensors of \"torch.ComplexFloatStorage\", a dtype that dlrun "
            "does not have"},
           {"float8",
            ": data.pkl has tensors of \"torch.float8_e4m3fn\", a dtype that dlrun does not "
            "have"}}) {
    expect_refused(torch_file(name), torch_file(name) + text);
  }
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  const auto refuse = [&](std::string_view bytes, const std::string& text) {
    dir.write("f", std::as_bytes(std::span(bytes)));
    expect_refused(path, path + text);
  };
  for (const char* const other : {"", "{\"a\": 1}"}) {
    refuse(other,
           " is no PyTorch file: it begins neither as a zip archive nor with torch.save's number");
  }
  refuse(std::string(257, '\0') + "ustar", " is of the tar format before PyTorch 0.1.10");
  write_zip(path, {{"r/version", "3\n"}});
  expect_refused(path, path + " is no PyTorch file: it is a zip archive without data.pkl");
  write_zip(path, {{"r/data.pkl", "\x80\x02N."}, {"r/constants.pkl", ""}});
  expect_refused(path, path + " is a program of TorchScript (torch.jit.save), which is not read");
  write_zip(path, {{"a/data.pkl", "\x80\x02N."}, {"b/data.pkl", "\x80\x02N."}});
  expect_refused(path, path + " holds two values, \"a/data.pkl\" and \"b/data.pkl\"");
  write_zip(path, {{"data.pkl", "\x80\x02N."}});
  EXPECT_TRUE(load_pth(path).is_none()) << "a folder is not needed";
  EXPECT_THAT([] { load_pth("/nowhere/f"); },
              ThrowsMessage<Error>("open /nowhere/f: No such file or directory"));
}

TEST(PthErrors, NoneOfMetadataThatChangeNothing) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  for (const std::string& metadata : {"N"s, "}"s, "}" + pickled_text("neg") + "\x89s"}) {
    write_zip(path,
              {{"r/data.pkl", "\x80\x02" + with_metadata(metadata) + "."}, {"r/data/0", kFour}});
    EXPECT_EQ(load_pth(path).as_tensor().numel(), 4) << metadata;
  }
}

TEST(PthErrors, Pickles) {
  const std::string two = "\x80\x02"s;
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n";
  std::string deep = two;
  for (int i = 0; i < 70; ++i) deep += "]";
  for (int i = 0; i < 69; ++i) deep += "a";
  // Each list holds the one before it ten times: 10^20 values.
  std::string bomb = two + "(]q\0"s;
  for (int i = 0; i < 20; ++i) {
    bomb += "](";
    for (int k = 0; k < 10; ++k) bomb += "h"s + static_cast<char>(i);
    bomb += "eq"s + static_cast<char>(i + 1);
  }
  const struct {
    std::string pickle;
    std::string text;
  } kRows[] = {
      {"", "is truncated (at byte 0)"},
      {two, "is truncated (at byte 2)"},
      {two + "X" + number_bytes(100, 4) + "abc.", "is truncated"},
      {two + "\x8d" + number_bytes(~0ULL, 8) + ".", "is truncated"},
      {two + "cos\nsystem", "is truncated"},
      {"\x80\x01N.", "is of a protocol that is none of 2 to 5"},
      {two + "cos\nsystem\n" + pickled_text("x") + "\x85R.",
       "names \"os.system\", which torch.load(weights_only=True) refuses, too"},
      {two + pickled_text("os") + pickled_text("system") + "\x93.", "names \"os.system\""},
      {two + "c__builtin__\neval\n.", "names \"__builtin__.eval\""},
      {two + "cnumpy.core.multiarray\n_reconstruct\n.",
       "names \"numpy.core.multiarray._reconstruct\""},
      {two + "NN\x93.", "names a class without text"},
      {two + "(i", "has the opcode 0x69, which no state dict needs"},
      {two + "(\x91.", "has the opcode 0x91"},
      {two + "ctorch._utils\n_rebuild_sparse_tensor\n.",
       "has a tensor of \"torch._utils._rebuild_sparse_tensor\", which is not read"},
      {two + ".", "takes a value that is not there"},
      {two + "NN.", "ends with more than one value"},
      {two + "(N.", "ends with more than one value"},
      {two + "t.", "takes values to a mark that is not there"},
      {two + "N(\x85.", "takes a value that is not there"},
      {two + "h\5.", "refers to a value that it has not made"},
      {two + "q\5.", "takes a value that is not there"},
      {two + "NNa.", "appends to what is no list"},
      {two + "](NNu.", "sets an item of what is no dict"},
      {two + "}(Nu.", "sets a key without a value"},
      {two + "}]Ns.", "has a list, dict, set or tensor as the key of a dict"},
      {two + "}K\1NsK\1Ns.", "a dict has the key 1 twice"},
      {two + "}" + pickled_text("a") + "Ns" + pickled_text("a") + "Ns.",
       "a dict has the key \"a\" twice"},
      {two + "N)R.", "calls what is no function"},
      {two + "ctorch\nFloatStorage\n)R.", "calls torch.FloatStorage, which is no function"},
      {two + "ccollections\nOrderedDict\nN\x85R.",
       "makes collections.OrderedDict of other arguments than a dict or pairs"},
      {two + "ctorch\nSize\nN\x85R.", "makes a Size of no tuple"},
      {two + "]}b.", "sets attributes of what is no OrderedDict"},
      {two + "ctorch\nSize\n.", "has torch.Size as a value, which cannot be kept"},
      {two + "ccollections\nCounter\n](]e\x85R.", "makes collections.Counter of other arguments"},
      {two + "ctorch\ndevice\nK\1\x85R.", "makes a device of other arguments"},
      {two + "c_codecs\nencode\n(" + pickled_text("a") + pickled_text("rot13") + "tR.",
       "encodes other arguments than a text and \"latin1\""},
      {two + "c_codecs\nencode\n(" + pickled_text("\u0100") + pickled_text("latin1") + "tR.",
       "encodes a character as a byte that is none"},
      {two + "c__builtin__\nset\nK\1\x85R.", "makes a set of no list"},
      {two + "c__builtin__\nset\n]]a\x85R.", "has a list, dict, set or tensor in a set"},
      {two + "c__builtin__\ncomplex\nK\1\x85R.", "makes a complex number of other arguments"},
      {two + "c__builtin__\nbytearray\nK\1\x85R.", "makes bytes of other arguments"},
      {two + "ctorch.serialization\n_get_layout\nN\x85R.", "makes a layout of no text"},
      {two + "ctorch._tensor\n_rebuild_from_type_v2\n(NN)NtR.", "makes a tensor"},
      {two + "ctorch\nTensor\n)\x81.", "makes an object of another class than OrderedDict"},
      {two + "cnumpy\ndtype\n.", "in Python save numbers with x.item() and arrays as"},
      {two + pickled_storage() + ".", "has a storage as a value, wanted a tensor"},
      {two + "]q\1h\1a.", "has a list or dict that contains itself"},
      {two + "]q\1(h\1ta.", "has a list or dict that contains itself"},
      {deep + ".", "has containers too deep inside each other"},
      {bomb + "t.", "holds too many values once each stands alone"},
      {two + "NQ.", "has a storage that is not"},
      {two + pickled_storage("FloatStorage", -1) + ".", "has a storage that is not"},
      {two + pickled_storage("FloatStorage", std::int64_t{1} << 60) + ".",
       "has a storage of more than 2^59 elements"},
      {two + "(" + pickled_tensor(0, {4}, {1}) +
           pickled_tensor(0, {2}, {1}, pickled_storage("DoubleStorage", 2)) + "t.",
       "has one storage with two types or sizes"},
      {two + rebuild + "(NK\0(t(t\x89}tR."s, "makes a tensor of other arguments than storage"},
      {two + rebuild + ")R.", "makes a tensor of other arguments than storage"},
      {two + "ctorch._utils\n_rebuild_parameter\n(N\x88}tR.",
       "makes a Parameter of other arguments"},
      {two + "ctorch._utils\n_rebuild_parameter\n(" +
           pickled_tensor(0, {2}, {1}, pickled_storage("LongStorage", 2)) + "\x88}tR.",
       "has integers that require gradients"},
      {two + pickled_tensor(0, {4}, {}) + ".", "has a tensor with too few or many strides"},
      {two + pickled_tensor(0, {-1}, {1}) + ".",
       "has a tensor whose sizes are no numbers of at least 0"},
      {two + pickled_tensor(0, {2}, {-1}) + ".", "has a tensor whose strides are no numbers"},
      // As PyTorch saves torch._neg_view(x).
      {two + with_metadata("}q\5" + pickled_text("neg") + "q\6\x88s") + ".",
       "has a tensor with the metadata \"neg\", which may change its numbers; in Python save "
       "tensor.resolve_conj().resolve_neg()"},
      {two + with_metadata("}(" + pickled_text("neg") + "\x89" + pickled_text("conj") + "\x88u") +
           ".",
       "has a tensor with the metadata \"conj\", which may change its numbers"},
      {two + with_metadata("}" + pickled_text("neg") + "K\1s") + ".",
       "has a tensor with the metadata \"neg\""},
      {two + with_metadata("K\1") + ".", "has a tensor whose metadata are no dict"},
      {two + pickled_tensor(0, {5}, {1}) + ".", "has a tensor that reaches outside its storage"},
      {two + pickled_tensor(1, {4}, {1}) + ".", "has a tensor that reaches outside its storage"},
      {two + pickled_tensor(-1, {4}, {1}) + ".", "has a tensor that reaches outside its storage"},
      {two + pickled_tensor(-1, {0}, {1}) + ".", "has a tensor that reaches outside its storage"},
      {two + pickled_tensor(0, {2, 2}, {3, 1}) + ".",
       "has a tensor that reaches outside its storage"},
      {two + pickled_tensor(0, {2}, {INT64_MAX}) + ".", "than memory can address"},
      {two + pickled_tensor(0, {INT64_MAX, 2}, {0, 0}) + ".", "than memory can address"},
      {two + pickled_tensor(0, {0, INT64_MAX, 2}, {0, 0, 0}) + ".", "than memory can address"},
      {two + pickled_tensor(0, {4}, {1}, pickled_storage("FloatStorage", 4, "7")) + ".",
       "it has no entry \"r/data/7\", in which tensors lie"},
      {two + pickled_tensor(0, {4}, {1}, pickled_storage("FloatStorage", 4, "../data.pkl")) + ".",
       "it has no entry \"r/data/../data.pkl\""},
      {two + pickled_tensor(0, {4}, {1}, pickled_storage("FloatStorage", 5)) + ".",
       "entry \"r/data/0\" has 16 bytes, but its tensors' storage takes 20"},
  };
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  for (const auto& row : kRows) {
    write_zip(path, {{"r/data.pkl", row.pickle}, {"r/data/0", kFour}});
    expect_refused(path, row.text);
  }
  const std::string four_bools =
      two + pickled_tensor(0, {2}, {1}, pickled_storage("BoolStorage", 4)) + ".";
  write_zip(path, {{"r/data.pkl", four_bools}, {"r/data/0", "\0\1\2\0"s}});
  expect_refused(path, path + ": storage \"0\" is of bool and holds other bytes than 0 and 1");
  write_zip(path, {{"r/data.pkl", "\x80\x02N."}, {"r/byteorder", "middle"}});
  expect_refused(path, path + ": its byteorder is \"middle\", wanted little or big");
}

// The bytes of a file of PyTorch's format, and the offsets of its records.
struct Archive {
  std::string bytes;
  std::size_t central = 0;  // of the first entry, data.pkl
  std::size_t end = 0;
  std::size_t local = 0;  // of the second entry, data/0

  void put(std::size_t at, std::uint64_t value, std::size_t width) {
    bytes.replace(at, width, number_bytes(value, width));
  }
};

Archive good_archive(const TemporaryDirectory& dir) {
  const std::string path = dir.path() + "/good";
  write_zip(path,
            {{"r/data.pkl", "\x80\x02" + pickled_tensor(0, {4}, {1}) + "."}, {"r/data/0", kFour}});
  Archive archive{.bytes = file_content(path)};
  archive.central = archive.bytes.find("PK\1\2");
  archive.end = archive.bytes.find("PK\5\6");
  archive.local = archive.bytes.find("PK\3\4", 1);
  return archive;
}

TEST(PthErrors, Archives) {
  const struct {
    std::function<void(Archive&)> change;
    std::string text;
  } kRows[] = {
      {[](Archive& a) { a.bytes.resize(a.end + 21); }, " is truncated: it has no end of a zip"},
      {[](Archive& a) { a.bytes += "x"; }, " is truncated: it has no end of a zip"},
      {[](Archive& a) { a.put(a.end + 4, 1, 2); }, " is one part of a zip archive of several"},
      {[](Archive& a) { a.put(a.end + 16, 7, 4); }, ", wanted an end at byte "},
      {[](Archive& a) { a.put(a.end + 12, 0xfffffff0, 4); }, ", wanted an end at byte "},
      {[](Archive& a) { a.put(a.end + 8, 9, 2), a.put(a.end + 10, 9, 2); },
       ", too few for 9 entries"},
      {[](Archive& a) { a.put(a.end + 8, 1, 2), a.put(a.end + 10, 1, 2); },
       ": its directory goes on for "},
      {[](Archive& a) { a.put(a.central, 0, 4); }, ": entry 0 of 2 is not in its directory"},
      {[](Archive& a) { a.put(a.central + 28, 0xffff, 2); },
       ": entry 0 of 2 is not in its directory"},
      {[](Archive& a) { a.put(a.central + 8, 1, 2); }, ": entry \"r/data.pkl\" is encrypted"},
      {[](Archive& a) { a.put(a.central + 10, 93, 2); },
       " is packed by method 93, wanted 0 (stored) or 8 (deflated)"},
      {[](Archive& a) { a.put(a.central + 24, 7, 4); }, " is stored and has two sizes, "},
      {[](Archive& a) { a.put(a.central + 24, 0xffffffff, 4); },
       " announces zip64 sizes and does not have them"},
      {[](Archive& a) { a.put(a.central + 10, 8, 2), a.put(a.central + 24, 0xfffffffe, 4); },
       " announces 4294967294 bytes, more than its "},
      {[](Archive& a) { a.put(a.central + 20, 0xfffffff, 4), a.put(a.central + 24, 0xfffffff, 4); },
       " lies outside the file or in its directory"},
      {[](Archive& a) { a.put(a.central + 42, 0xfffffff, 4); },
       " lies outside the file or in its directory"},
      {[](Archive& a) { a.put(a.central + 42, 1, 4); }, ": no entry stands at byte 1, wanted "},
      {[](Archive& a) { a.put(a.central + 42, a.local, 4); },
       ": the entry \"r/data/0\" is called \"r/data.pkl\" in the directory"},
      {[](Archive& a) { a.put(a.local + 28, 0xfff, 2); },
       " lies outside the file or in its directory"},
      // The second entry's header and bytes, inside those of the first.
      {[](Archive& a) {
         a.put(a.central + 20, a.local, 4);
         a.put(a.central + 24, a.local, 4);
       },
       ": two of its entries share the bytes from "},
      {[](Archive& a) { a.bytes[a.local + 100] ^= 1; }, " is damaged: its CRC-32 is "},
      {[](Archive& a) {
         // Stored bytes are no deflated ones.
         const std::size_t second = a.bytes.find("PK\1\2", a.central + 1);
         a.put(second + 10, 8, 2);
       },
       " is damaged: it does not inflate to the 16 bytes it announces"},
      {[](Archive& a) { a.bytes.insert(a.end, "PK\6\7" + std::string(16, '\xff')); },
       ": its zip64 directory's end is announced at byte 18446744073709551615"},
      {[](Archive& a) { a.bytes.insert(a.end, "PK\6\7" + std::string(16, '\0')); },
       ": no end of a zip64 directory stands at byte 0"},
  };
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  for (const auto& row : kRows) {
    Archive archive = good_archive(dir);
    row.change(archive);
    dir.write("f", std::as_bytes(std::span(archive.bytes)));
    expect_refused(path, row.text);
  }
  write_zip(path, {{"r/data.pkl", "\x80\x02N."}, {"r/x", ""}, {"r/x", ""}});
  expect_refused(path, path + ": two entries are called \"r/x\"");
}

TEST(PthErrors, TruncationsAndEveryByteTurnedAround) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  const Archive good = good_archive(dir);
  for (std::size_t i = 0; i < good.bytes.size(); i += 9) {
    dir.write("f", std::as_bytes(std::span(good.bytes)).first(i));
    EXPECT_THROW(load_pth(path), Error) << i;
  }
  for (std::size_t i = 0; i < good.bytes.size(); ++i) {
    std::string bytes = good.bytes;
    bytes[i] = static_cast<char>(~bytes[i]);
    dir.write("f", std::as_bytes(std::span(bytes)));
    try {
      // Padding, dates and versions do not count.
      EXPECT_EQ(load_pth(path).as_tensor().numel(), 4) << i;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(path)) << i;
    }
  }
}

TEST(PthErrors, LimitsOfDeflatedEntriesAndOfChecks) {
  const std::string deflated = torch_file("deflated");
  expect_refused(deflated,
                 deflated +
                     ": its deflated entries hold more than 100 bytes; raise max_inflated if "
                     "the file is your own",
                 {.max_inflated = 100});
  const TemporaryDirectory dir;
  Archive archive = good_archive(dir);
  const std::size_t second = archive.bytes.find("PK\1\2", archive.central + 1);
  archive.put(second + 16, 0, 4);
  const std::string path = dir.write("f", std::as_bytes(std::span(archive.bytes)));
  expect_refused(path, "entry \"r/data/0\" is damaged: its CRC-32 is ");
  EXPECT_EQ(load_pth(path, {.check_crc32 = false}).as_tensor().numel(), 4);
}

}  // namespace
}  // namespace dl::nn
