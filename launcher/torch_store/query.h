// One query of the protocol that PyTorch's TCPStore speaks, and the reader that makes queries of
// the bytes of a connection. docs/protocol.md, "PyTorch's store", has the layout of each.
//
// A query is a byte with its kind, then its arguments. Numbers are little-endian; a text (key or
// value) is a u64 with its size and so many bytes. The first query of a connection is kValidate
// with kValidation; there is no answer to it. Values, no I/O; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

// The numbers are the protocol's.
enum class QueryKind : std::uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kNumKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};
inline constexpr std::size_t kQueryKinds = 19;

// "SET", "QUEUE_POP": as PyTorch's source has it.
std::string_view name_of(QueryKind kind) noexcept;

inline constexpr std::uint32_t kValidation = 0x3C85F7CE;

// PyTorch's own limits, which its server has had since it runs on libuv.
inline constexpr std::size_t kMostKeyBytes = std::size_t{8} << 10;
inline constexpr std::size_t kMostValueBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMostKeysInQuery = std::size_t{128} << 10;
// One query as a whole: keys and values.
inline constexpr std::size_t kMostQueryBytes = std::size_t{256} << 20;

struct Query {
  QueryKind kind = QueryKind::kValidate;
  std::vector<std::string> keys;
  std::vector<std::string> values;  // kMultiSet: one a key; kCompareSet: the expected, the new one
  // kAdd: what to add; kBarrier: how many clients; kPing, kValidate: a number without meaning
  std::int64_t number = 0;
};

class QueryReader {
 public:
  // Takes bytes of the connection, in any pieces.
  void feed(std::string_view bytes);
  // The next whole query; nothing where more bytes are wanted or error() is not empty.
  std::optional<Query> next();
  // Why the connection cannot be read on, a clause: "the first query is SET, wanted VALIDATE".
  const std::string& error() const noexcept { return error_; }
  // Whether the client has said kValidate.
  bool is_validated() const noexcept { return validated_; }
  // Bytes that are kept here.
  std::size_t held() const noexcept { return unread_.size() - at_ + query_bytes_; }

 private:
  bool begin();
  bool read_argument(char what);
  bool read_text(const char* what, std::size_t most, std::vector<std::string>& into);
  template <typename Number>
  bool read_number(Number& into);
  bool fail(std::string why);

  std::string unread_;
  std::size_t at_ = 0;  // of unread_: what stands before has been read
  std::string error_;
  bool validated_ = false;

  bool begun_ = false;
  Query query_;
  std::string_view arguments_;     // that are still to be read, see kArguments
  std::uint64_t repetitions_ = 0;  // of the argument that is a list; counted_
  bool counted_ = false;
  std::size_t query_bytes_ = 0;
};

}  // namespace dl::launcher
