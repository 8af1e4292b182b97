#include "rendezvous/net/cause.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace dl::rendezvous {
namespace {

constexpr std::array<std::string_view, 9> kBlameNames = {
    "none", "gone", "left", "unreachable", "missing", "broke", "mismatch", "link", "renewal"};
constexpr std::size_t kMostOperationBytes = 255;

template <typename Number>
bool take_number(std::string_view& rest, Number& number) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || end == rest.data() + rest.size()) return false;
  if (*end != ' ' && *end != '\n') return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
  return true;
}

}  // namespace

std::string_view name_of(Blame blame) noexcept {
  return kBlameNames[std::min(static_cast<std::size_t>(blame), kBlameNames.size() - 1)];
}

std::optional<Blame> blame_of(std::string_view name) noexcept {
  const auto found = std::find(kBlameNames.begin(), kBlameNames.end(), name);
  if (found == kBlameNames.end()) return std::nullopt;
  return static_cast<Blame>(found - kBlameNames.begin());
}

std::string encode(const Cause& cause, std::size_t most) {
  std::string operation = cause.operation.substr(0, kMostOperationBytes);
  std::replace(operation.begin(), operation.end(), '\n', ' ');
  std::string bytes = fmt::format("{} {} {} {} {} {}\n{}\n", static_cast<int>(cause.kind),
                                  static_cast<int>(cause.blame), cause.rank, cause.found_by,
                                  static_cast<int>(cause.is_whole), cause.sequence, operation);
  bytes.append(cause.text, 0, most - std::min(most, bytes.size()));
  return bytes;
}

std::optional<Cause> decode_cause(std::string_view bytes) {
  Cause cause;
  unsigned kind = 0;
  unsigned blame = 0;
  unsigned is_whole = 0;
  if (!take_number(bytes, kind) || !take_number(bytes, blame) || !take_number(bytes, cause.rank) ||
      !take_number(bytes, cause.found_by) || !take_number(bytes, is_whole) ||
      !take_number(bytes, cause.sequence)) {
    return std::nullopt;
  }
  const std::size_t end = bytes.find('\n');
  if (kind > static_cast<unsigned>(ErrorKind::kInternal) || blame >= kBlameNames.size() ||
      is_whole > 1 || cause.rank < -1 || cause.found_by < -1 || end == std::string_view::npos ||
      end > kMostOperationBytes) {
    return std::nullopt;
  }
  cause.kind = static_cast<ErrorKind>(kind);
  cause.blame = static_cast<Blame>(blame);
  cause.is_whole = is_whole != 0;
  cause.operation = bytes.substr(0, end);
  cause.text = bytes.substr(end + 1);
  return cause;
}

}  // namespace dl::rendezvous
