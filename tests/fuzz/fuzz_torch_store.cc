// The agent store against whatever its clients may send.
//
// The script is pieces: a byte with the client (its high bit: the client leaves after it) and a
// byte with the size, then so many bytes. Each of four clients has validated itself but the last.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/torch_store/query.h"
#include "launcher/torch_store/torch_keys.h"

namespace {

using namespace dl::launcher;

constexpr std::size_t kClients = 4;
constexpr std::string_view kHello("\0\xCE\xF7\x85\x3C", 5);

void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TorchKeys::Limits limits{.bytes = 20'000, .keys = 24, .value = 2'000, .reply = 3'000};
  TorchKeys keys(limits);
  std::array<QueryReader, kClients> readers;
  for (std::size_t i = 0; i + 1 < kClients; ++i) readers[i].feed(kHello);

  std::string_view script(reinterpret_cast<const char*>(data), size);
  while (script.size() >= 2) {
    const auto head = static_cast<std::uint8_t>(script[0]);
    const auto length = static_cast<std::uint8_t>(script[1]);
    script.remove_prefix(2);
    const std::size_t client = head % kClients;
    QueryReader& reader = readers[client];
    reader.feed(script.substr(0, length));
    script.remove_prefix(std::min<std::size_t>(length, script.size()));
    while (std::optional<Query> query = reader.next()) {
      std::vector<TorchReply> replies;
      const std::string why = keys.apply(client, std::move(*query), replies);
      for (const TorchReply& reply : replies) {
        require(reply.to < kClients && !reply.bytes.empty());
        require(reply.bytes.size() <= limits.reply);
        require(reply.to == client || reply.bytes.size() == 1);  // woken
      }
      require(keys.bytes() <= limits.bytes && keys.size() <= limits.keys);
      if (!why.empty()) {
        require(replies.empty());
        keys.leave(client);
        reader = {};
        break;
      }
    }
    require(reader.error().empty() || reader.held() == 0);
    require(reader.held() <= size + 64 * size);
    if ((head & 0x80) != 0) {
      keys.leave(client);
      reader = {};
    }
  }
  for (std::size_t i = 0; i < kClients; ++i) keys.leave(i);
  require(keys.waiting() == 0);
  return 0;
}
