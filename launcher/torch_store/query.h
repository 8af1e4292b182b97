// Query and QueryReader: one query of the protocol that PyTorch's TCPStore speaks, and the reader
// that decodes queries from the bytes of a connection. docs/protocol.md, "PyTorch's store", has the
// layout of each.
//
// A query is a byte with its kind, then its arguments. Numbers are little-endian. A text (key or
// value) is a u64 with its size, then its bytes. The first query of a connection is kValidate with
// kValidation; there is no answer to it. Values, no I/O; one thread at a time.
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

// "SET", "QUEUE_POP": the name in PyTorch's source.
std::string_view name_of(QueryKind kind) noexcept;

inline constexpr std::uint32_t kValidation = 0x3C85F7CE;

// PyTorch's own limits. Its server has had them since it is based on libuv.
inline constexpr std::size_t kMostKeyBytes = std::size_t{8} << 10;
inline constexpr std::size_t kMostValueBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMostKeysInQuery = std::size_t{128} << 10;
// The most bytes of one whole query: keys and values.
inline constexpr std::size_t kMostQueryBytes = std::size_t{256} << 20;

struct Query {
  QueryKind kind = QueryKind::kValidate;
  std::vector<std::string> keys;
  std::vector<std::string>
      values;  // kMultiSet: one for each key; kCompareSet: the expected, the new one
  // kAdd: the addend; kBarrier: the number of clients; kPing, kValidate: a number without meaning
  std::int64_t number = 0;
};

class QueryReader {
 public:
  // Takes bytes of the connection, in any pieces.
  void feed(std::string_view bytes);
  // The next whole query; nullopt if more bytes are needed or error() is not empty.
  std::optional<Query> next();
  // Why no more queries can be read, a clause: "the first query is SET, wanted VALIDATE".
  const std::string& error() const noexcept { return error_; }
  // True if the client has begun with dlrun's handshake (docs/protocol.md): it takes the port for
  // that of the rendezvous, which has left it.
  bool is_of_dlrun() const noexcept { return is_of_dlrun_; }
  // True if the client has sent kValidate.
  bool is_validated() const noexcept { return validated_; }
  // Number of bytes kept in this reader.
  std::size_t held() const noexcept { return unread_.size() - at_ + query_bytes_; }

 private:
  bool begin();
  bool read_argument(char what);
  bool read_text(const char* what, std::size_t most, std::vector<std::string>& into);
  template <typename Number>
  bool read_number(Number& into);
  bool fail(std::string why);

  std::string unread_;
  std::size_t at_ = 0;  // index in unread_ of the first unread byte
  std::string error_;
  bool validated_ = false;
  bool is_of_dlrun_ = false;

  bool begun_ = false;
  Query query_;
  std::string_view arguments_;     // the arguments still to be read, see kArguments
  std::uint64_t repetitions_ = 0;  // remaining elements of a list argument, if counted_
  bool counted_ = false;
  std::size_t query_bytes_ = 0;
};

}  // namespace dl::launcher
