#include "rendezvous/net/lifeline.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "core/base/env.h"

namespace dl::rendezvous {
namespace {

constexpr std::string_view kWord = "peer-failed";
constexpr std::size_t kMostBytes = 32 * 1024;

// The part before the next line break, which is taken off `rest` with it.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

}  // namespace

std::string encode_peer_failure(const PeerFailure& failure) {
  std::string operation = failure.operation.substr(0, 255);
  std::replace(operation.begin(), operation.end(), '\n', ' ');
  std::string packet = fmt::format("{}\n{}\n{}\n", kWord, failure.peer, operation);
  packet.append(failure.text, 0, kMostBytes - packet.size());
  return packet;
}

std::optional<PeerFailure> decode_peer_failure(std::string_view packet) {
  const auto word = take_line(packet);
  const auto peer = take_line(packet);
  const auto operation = take_line(packet);
  if (!word || *word != kWord || !peer || !operation) return std::nullopt;
  PeerFailure failure;
  const auto [end, error] =
      std::from_chars(peer->data(), peer->data() + peer->size(), failure.peer);
  if (error != std::errc() || end != peer->data() + peer->size()) return std::nullopt;
  failure.operation = *operation;
  failure.text = packet;
  return failure;
}

void report_peer_failure(const PeerFailure& failure) noexcept {
  try {
    const auto fd = env::get_int(env::Var::kLifelineFd);
    if (!fd) return;
    const std::string packet = encode_peer_failure(failure);
    ::send(static_cast<int>(*fd), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } catch (...) {
    // The error that this is about is on its way already.
  }
}

}  // namespace dl::rendezvous
