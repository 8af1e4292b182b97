#include "launcher/remote/frames/messages.h"

#include <algorithm>
#include <type_traits>

#include "core/base/error.h"
#include "rendezvous/net/wire.h"

namespace dl::launcher::remote {
namespace {

using rendezvous::WireReader;
using rendezvous::WireWriter;

// More bytes come from a login shell that never ends.
constexpr std::size_t kMostNoise = std::size_t{64} << 10;
constexpr std::size_t kMostKeptNoise = 1000;

class BodyWriter {
 public:
  void operator()(bool value) { out_.put(static_cast<std::uint8_t>(value)); }
  void operator()(int value) { out_.put(static_cast<std::uint32_t>(value)); }
  void operator()(std::uint32_t value) { out_.put(value); }
  void operator()(std::int64_t value) { out_.put(static_cast<std::uint64_t>(value)); }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void operator()(Enum value) {
    out_.put(static_cast<std::uint8_t>(value));
  }
  void operator()(const std::string& value) {
    out_.put(static_cast<std::uint32_t>(value.size()));
    out_.put_bytes({reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    out_.put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) (*this)(value);
  }
  std::span<const std::uint8_t> bytes() const { return out_.bytes(); }

 private:
  WireWriter out_;
};

// After an invalid field, is_whole() is false.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::uint8_t> body) : size_(body.size()), in_(body) {}

  void operator()(bool& value) {
    const auto byte = in_.take<std::uint8_t>();
    right_ = right_ && byte <= 1;
    value = byte != 0;
  }
  void operator()(int& value) { value = static_cast<int>(in_.take<std::uint32_t>()); }
  void operator()(std::uint32_t& value) { value = in_.take<std::uint32_t>(); }
  void operator()(std::int64_t& value) {
    value = static_cast<std::int64_t>(in_.take<std::uint64_t>());
  }
  void operator()(Stream& value) { take_enum(value, Stream::kErr); }
  void operator()(RankNews::What& value) { take_enum(value, RankNews::What::kEnded); }
  void operator()(Order::What& value) { take_enum(value, Order::What::kReport); }
  void operator()(std::string& value) {
    const std::span<const std::uint8_t> bytes = in_.take_bytes(in_.take<std::uint32_t>());
    value.assign(bytes.begin(), bytes.end());
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    const auto count = in_.take<std::uint32_t>();
    right_ = right_ && count <= size_ / sizeof(std::uint32_t);  // the least that one takes
    if (!right_) return;
    values.resize(count);
    for (T& value : values) (*this)(value);
  }
  bool is_whole() const { return right_ && in_.ok_and_done(); }

 private:
  template <typename Enum>
  void take_enum(Enum& value, Enum last) {
    const auto byte = in_.take<std::uint8_t>();
    right_ = right_ && byte <= static_cast<std::uint8_t>(last);
    if (right_) value = static_cast<Enum>(byte);
  }

  std::size_t size_;
  bool right_ = true;
  WireReader in_;
};

// The fields of each value, in the order of the wire; `io` writes or reads them.
template <typename Io, typename T>
void verdict_fields(Io& io, T& v) {
  io(v.exit_code), io(v.page), io(v.keeps_recorders), io(v.may_begin_again), io(v.attempt);
}
template <typename Io, typename T>
void fields(Io& io, T& v) {
  using V = std::remove_const_t<T>;
  if constexpr (std::is_same_v<V, Hello>) {
    io(v.protocol), io(v.version);
  } else if constexpr (std::is_same_v<V, Refused>) {
    io(v.exit_code), io(v.text);
  } else if constexpr (std::is_same_v<V, Listening> || std::is_same_v<V, Meet>) {
    io(v.endpoints);
  } else if constexpr (std::is_same_v<V, Sentence>) {
    io(v.text);
  } else if constexpr (std::is_same_v<V, Attempt>) {
    io(v.attempt), io(v.ranks);
  } else if constexpr (std::is_same_v<V, RankNews>) {
    io(v.what), io(v.rank), io(v.pid), io(v.status);
  } else if constexpr (std::is_same_v<V, Output>) {
    io(v.id.attempt), io(v.id.rank), io(v.id.stream), io(v.time_us), io(v.is_last), io(v.bytes);
  } else if constexpr (std::is_same_v<V, Decided>) {
    verdict_fields(io, v.verdict);
  } else if constexpr (std::is_same_v<V, BeginsAgain>) {
    verdict_fields(io, v.verdict), io(v.number), io(v.most), io(v.delay_ms);
  } else if constexpr (std::is_same_v<V, RankFile>) {
    io(v.attempt), io(v.rank), io(v.name), io(v.bytes);
  } else if constexpr (std::is_same_v<V, Over>) {
    verdict_fields(io, v.verdict), io(v.left);
  } else if constexpr (std::is_same_v<V, Start>) {
    io(v.key), io(v.host), io(v.options), io(v.programs), io(v.runs), io(v.directory),
        io(v.environment), io(v.progress_columns), io(v.preempt_wait);
  } else if constexpr (std::is_same_v<V, Stop>) {
    io(v.exit_code), io(v.text), io(v.signal);
  } else if constexpr (std::is_same_v<V, SignalRanks>) {
    io(v.signal);
  } else if constexpr (std::is_same_v<V, Order>) {
    io(v.what);
  } else if constexpr (std::is_same_v<V, Credit>) {
    io(v.stream), io(v.bytes);
  } else if constexpr (std::is_same_v<V, Save>) {
    io(v.why);
  } else if constexpr (std::is_same_v<V, Input> || std::is_same_v<V, InputRoom>) {
    io(v.bytes);
  } else {
    static_assert(std::is_same_v<V, Alive>);
  }
}

template <std::size_t I = 0>
bool read_as(std::size_t index, BodyReader& body, Value& value) {
  if constexpr (I < std::variant_size_v<Value>) {
    if (index != I) return read_as<I + 1>(index, body, value);
    fields(body, value.emplace<I>());
    return true;
  } else {
    return false;
  }
}

}  // namespace

std::vector<std::uint8_t> encode(const Value& value) {
  BodyWriter body;
  std::visit([&body](const auto& v) { fields(body, v); }, value);
  DL_CHECK(body.bytes().size() <= kMostBody, kInvalidArgument,
           "a message between dlrun and a remote node would have {} bytes, wanted at most {}; are "
           "the program's arguments that long?",
           body.bytes().size(), kMostBody);
  WireWriter frame;
  frame.put(static_cast<std::uint32_t>(value.index() + 1));
  frame.put(static_cast<std::uint32_t>(body.bytes().size()));
  frame.put_bytes(body.bytes());
  return {frame.bytes().begin(), frame.bytes().end()};
}

void Decoder::feed(std::span<const std::uint8_t> bytes) {
  if (awaits_magic_) {
    noise_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (noise_.size() > kMostKeptNoise) noise_.erase(0, noise_.size() - kMostKeptNoise);
  }
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

// Returns false if the magic has not come yet.
bool Decoder::skip_to_magic() {
  const auto found = std::ranges::search(
      bytes_, std::span(reinterpret_cast<const std::uint8_t*>(kMagic.data()), kMagic.size()));
  awaits_magic_ = found.empty();
  if (awaits_magic_) {
    const std::size_t keep = std::min(bytes_.size(), kMagic.size() - 1);
    skipped_ += bytes_.size() - at_ - keep;
    at_ = bytes_.size() - keep;
    DL_CHECK(skipped_ <= kMostNoise, kParse, "no word of dlrun in the first {} KiB of what came",
             kMostNoise >> 10);
    return false;
  }
  at_ = static_cast<std::size_t>(found.end() - bytes_.begin());
  return true;
}

std::optional<Value> Decoder::next() {
  if (awaits_magic_ && !skip_to_magic()) return std::nullopt;
  const std::span<const std::uint8_t> rest = std::span(bytes_).subspan(at_);
  if (rest.size() < kHeader) return std::nullopt;
  WireReader header(rest.first(kHeader));
  const auto type = header.take<std::uint32_t>();
  const auto size = header.take<std::uint32_t>();
  DL_CHECK(type >= 1 && type <= std::variant_size_v<Value>, kParse,
           "a frame of type {}, which does not exist", type);
  DL_CHECK(size <= kMostBody, kParse, "a frame of {} bytes, wanted at most {}", size, kMostBody);
  if (rest.size() - kHeader < size) return std::nullopt;
  BodyReader body(rest.subspan(kHeader, size));
  Value value;
  read_as(type - 1, body, value);
  DL_CHECK(body.is_whole(), kParse, "a frame of type {} and {} bytes that is no message", type,
           size);
  at_ += kHeader + size;
  return value;
}

}  // namespace dl::launcher::remote
