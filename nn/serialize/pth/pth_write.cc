#include <fmt/core.h>

#include <bit>
#include <complex>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/base/text/utf8.h"
#include "nn/serialize/pickle/pickle_reader.h"
#include "nn/serialize/pth/pth.h"
#include "nn/serialize/safetensors_header.h"
#include "nn/serialize/zip/zip_writer.h"

namespace dl::nn {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are written as they lie in memory");

// torch's storage class of a dtype; null for dtypes that are newer than these classes.
const char* storage_class_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF16:
      return "HalfStorage";
    case DType::kBF16:
      return "BFloat16Storage";
    case DType::kF32:
      return "FloatStorage";
    case DType::kF64:
      return "DoubleStorage";
    case DType::kI8:
      return "CharStorage";
    case DType::kU8:
      return "ByteStorage";
    case DType::kI16:
      return "ShortStorage";
    case DType::kI32:
      return "IntStorage";
    case DType::kI64:
      return "LongStorage";
    case DType::kBool:
      return "BoolStorage";
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return nullptr;
  }
  return nullptr;
}

// True if Python can decode it; NUL is an ordinary character.
bool is_unicode(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

// Writes a value in protocol 2, as torch.save does.
class PthPickle {
 public:
  explicit PthPickle(const std::string& path) : path_(path) {}

  // Returns the pickle. The storages that it names are in storages(), each as a vector on the CPU.
  std::string write(const Value& value) {
    out_ = "\x80\x02";
    put(value, 0);
    out_ += '.';
    return std::move(out_);
  }
  const std::vector<Tensor>& storages() const noexcept { return storages_; }

 private:
  void put_number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out_ += static_cast<char>(value >> (8 * i));
  }
  void put_global(std::string_view module, std::string_view name) {
    out_ += fmt::format("c{}\n{}\n", module, name);
  }
  void put_bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  void put_int(std::int64_t value) {
    if (value >= 0 && value <= 0xff) {
      out_ += 'K';
      put_number(static_cast<std::uint64_t>(value), 1);
    } else if (value >= std::numeric_limits<std::int32_t>::min() &&
               value <= std::numeric_limits<std::int32_t>::max()) {
      out_ += 'J';
      put_number(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      put_number(static_cast<std::uint64_t>(value), 8);
    }
  }
  void put_float(double value) {
    out_ += 'G';
    put_number(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
  }
  void put_text(std::string_view text) {
    DL_CHECK(is_unicode(text), kInvalidArgument, "save {}: the text {} is not UTF-8", path_,
             shown_name(text));
    DL_CHECK(text.size() <= 0xffffffff, kInvalidArgument, "save {}: a text has {} bytes", path_,
             text.size());
    out_ += 'X';
    put_number(text.size(), 4);
    out_ += text;
  }
  void put_sizes(std::span<const std::int64_t> sizes) {
    out_ += '(';
    for (const std::int64_t size : sizes) put_int(size);
    out_ += 't';
  }
  // Protocol 2 has no opcodes for bytes, sets and complex numbers.
  void put_bytes(std::string_view bytes) {
    put_global("_codecs", "encode");
    std::string text;
    for (const char byte : bytes) {
      const auto code = static_cast<unsigned char>(byte);
      if (code >= 0x80) text += static_cast<char>(0xc0 | code >> 6);
      text += static_cast<char>(code >= 0x80 ? 0x80 | (code & 0x3f) : code);
    }
    out_ += '(';
    put_text(text);
    put_text("latin1");
    out_ += "tR";
  }
  void put_complex(std::complex<double> value) {
    put_global("__builtin__", "complex");
    out_ += '(';
    put_float(value.real());
    put_float(value.imag());
    out_ += "tR";
  }
  void put_big_int(const Value::BigInt& value) {
    const std::string bytes = value.bytes();
    DL_CHECK(bytes.size() <= 0xff, kInvalidArgument,
             "save {}: an integer has {} bytes, wanted at most 255", path_, bytes.size());
    out_ += '\x8a';
    put_number(bytes.size(), 1);
    out_ += bytes;
  }
  void put(const Value& value, int depth);
  void put_items(const Value::List& items, int depth);
  void put_dict(const Value::Dict& dict, int depth);
  void check_hashable(const Value& value, std::string_view what) const;
  void put_tensor(const Tensor& tensor);
  std::size_t storage_of(const Tensor& tensor);

  const std::string& path_;
  std::string out_{};
  std::vector<Tensor> storages_{};
  std::vector<Tensor> kept_{};  // keeps storages alive, so that their addresses are not reused
  std::unordered_map<const Storage*, std::size_t> numbers_{};
};

void PthPickle::put(const Value& value, int depth) {
  DL_CHECK(depth < kMaxPickleDepth, kInvalidArgument,
           "save {}: more than {} lists and dicts stand inside each other", path_, kMaxPickleDepth);
  if (value.is_none()) {
    out_ += 'N';
  } else if (value.is_bool()) {
    put_bool(value.as_bool());
  } else if (value.is_int()) {
    put_int(value.as_int());
  } else if (value.is_float()) {
    put_float(value.as_float());
  } else if (value.is_string()) {
    put_text(value.as_string());
  } else if (value.is_big_int()) {
    put_big_int(value.as_big_int());
  } else if (value.is_complex()) {
    put_complex(value.as_complex());
  } else if (value.is_bytes()) {
    put_bytes(value.as_bytes());
  } else if (value.is_tensor()) {
    put_tensor(value.as_tensor());
  } else if (value.is_dict()) {
    put_dict(value.as_dict(), depth);
  } else if (value.is_tuple()) {
    out_ += '(';
    put_items(value.as_list(), depth);
    out_ += 't';
  } else if (value.is_set()) {
    for (const Value& item : value.as_list()) check_hashable(item, "an element of a set");
    put_global("__builtin__", "set");
    out_ += "](";
    put_items(value.as_list(), depth + 1);
    out_ += "e\x85R";
  } else {
    out_ += "](";
    put_items(value.as_list(), depth);
    out_ += 'e';
  }
}

void PthPickle::put_items(const Value::List& items, int depth) {
  for (const Value& item : items) put(item, depth + 1);
}

void PthPickle::check_hashable(const Value& value, std::string_view what) const {
  const bool is_hashable =
      !value.is_tensor() && !value.is_list() && !value.is_dict() && !value.is_set();
  DL_CHECK(is_hashable, kInvalidArgument,
           "save {}: {} is {}, wanted a str, a number, None, bytes or a tuple", path_, what,
           value.type_name());
  if (!value.is_tuple()) return;
  for (const Value& item : value.as_list()) check_hashable(item, what);
}

void PthPickle::put_dict(const Value::Dict& dict, int depth) {
  std::unordered_set<std::string> keys;  // the keys written so far
  out_ += "}(";
  for (const auto& [key, value] : dict) {
    check_hashable(key, "a dict's key");
    const std::string shown = key.is_string() ? shown_name(key.as_string())
                              : key.is_int()  ? std::to_string(key.as_int())
                                              : std::string(key.type_name());
    const std::size_t begin = out_.size();
    put(key, depth + 1);
    DL_CHECK(keys.insert(out_.substr(begin)).second, kInvalidArgument,
             "save {}: a dict has the key {} twice", path_, shown);
    DL_CHECK(!value.is_tensor() || value.as_tensor().defined(), kInvalidArgument,
             "save {}: tensor {} is undefined", path_, shown);
    put(value, depth + 1);
  }
  out_ += 'u';
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, OrderedDict()), or v3 with a
// dtype at the end.
void PthPickle::put_tensor(const Tensor& tensor) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "save {}: a tensor is undefined", path_);
  const std::size_t number = storage_of(tensor);
  const Tensor& storage = storages_[number];
  const char* const type = storage_class_of(tensor.dtype());
  put_global("torch._utils", type != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out_ += "((";
  put_text("storage");
  if (type != nullptr) {
    put_global("torch", type);
  } else {
    put_global("torch.storage", "UntypedStorage");
  }
  put_text(std::to_string(number));
  put_text("cpu");
  put_int(type != nullptr ? storage.numel() : static_cast<std::int64_t>(storage.nbytes()));
  out_ += "tQ";
  put_int(tensor.storage_offset());
  put_sizes(tensor.sizes());
  put_sizes(tensor.strides());
  put_bool(tensor.requires_grad() && tensor.is_leaf());
  put_global("collections", "OrderedDict");
  out_ += ")R";
  if (type == nullptr) put_global("torch", name_of(tensor.dtype()));
  out_ += "tR";
}

std::size_t PthPickle::storage_of(const Tensor& tensor) {
  const auto [found, is_new] = numbers_.emplace(tensor.storage().get(), storages_.size());
  if (is_new) {
    const auto count =
        static_cast<std::int64_t>(tensor.storage()->bytes() / size_of(tensor.dtype()));
    storages_.push_back(as_strided(tensor, {count}, {1}, 0).cpu());
    kept_.push_back(tensor);
  }
  DL_CHECK(storages_[found->second].dtype() == tensor.dtype(), kDType,
           "save {}: tensors of {} and {} share one storage; clone() one of them", path_,
           name_of(storages_[found->second].dtype()), name_of(tensor.dtype()));
  return found->second;
}

std::span<const std::byte> elements_of(const Tensor& storage) {
  return {static_cast<const std::byte*>(storage.data_ptr()), storage.nbytes()};
}

}  // namespace

void save_pth(const std::string& path, const Value& value) {
  PthPickle pickle(path);
  const std::string pickled = pickle.write(value);
  AtomicFile file(path);
  ZipWriter zip(file);
  const auto add_text = [&](std::string_view name, std::string_view text) {
    zip.add(fmt::format("archive/{}", name), std::as_bytes(std::span(text)));
  };
  add_text("data.pkl", pickled);
  add_text("byteorder", "little");
  for (std::size_t i = 0; i < pickle.storages().size(); ++i) {
    zip.add(fmt::format("archive/data/{}", i), elements_of(pickle.storages()[i]));
  }
  add_text("version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace dl::nn
