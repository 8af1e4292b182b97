#include "rendezvous/net/lifeline.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "core/base/env.h"
#include "core/base/mutex.h"

namespace dl::rendezvous {
namespace {

constexpr std::string_view kBrokenWord = "broken";
constexpr std::string_view kWaitingWord = "waiting";
constexpr std::string_view kRenewalPacket = "renewal\n";
constexpr std::string_view kRecoveryPacket = "recovery\n";
constexpr std::size_t kMostBytes = 32 * 1024;
constexpr std::size_t kMostLineBytes = 255;

// Removes the first line from `rest` with its line break, and returns it.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

std::string one_line(const std::string& text) {
  std::string line = text.substr(0, kMostLineBytes);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// Returns false without a lifeline.
bool send_packet(std::string_view packet) {
  const auto fd = env::get_int(env::Var::kLifelineFd);
  if (!fd) return false;
  ::send(static_cast<int>(*fd), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return true;
}

// Held to send a report with its number, so that a recovery is never sent after a later report.
constinit Mutex report_mutex;
constinit std::uint32_t last_report DL_GUARDED_BY(report_mutex) = 0;

}  // namespace

constinit std::atomic<std::uint32_t> standing_report_number{0};

std::string encode_peer_failure(const PeerFailure& failure) {
  std::string packet = fmt::format("{}\n{}\n", kBrokenWord, one_line(failure.call));
  return packet + encode(failure.cause, kMostBytes - packet.size());
}

std::optional<PeerFailure> decode_peer_failure(std::string_view packet) {
  const auto word = take_line(packet);
  const auto call = take_line(packet);
  if (!word || *word != kBrokenWord || !call) return std::nullopt;
  auto cause = decode_cause(packet);
  if (!cause) return std::nullopt;
  return PeerFailure{.cause = std::move(*cause), .call = std::string(*call)};
}

std::string encode_waiting(const Waiting& waiting) {
  return fmt::format("{}\n{}\n{}\n", kWaitingWord, waiting.rank, one_line(waiting.operation));
}

std::optional<Waiting> decode_waiting(std::string_view packet) {
  const auto word = take_line(packet);
  const auto rank = take_line(packet);
  const auto operation = take_line(packet);
  if (!word || *word != kWaitingWord || !rank || !operation) return std::nullopt;
  Waiting waiting;
  const auto [end, error] =
      std::from_chars(rank->data(), rank->data() + rank->size(), waiting.rank);
  if (error != std::errc() || end != rank->data() + rank->size()) return std::nullopt;
  waiting.operation = *operation;
  return waiting;
}

bool is_renewal(std::string_view packet) noexcept {
  return packet == kRenewalPacket;
}

void report_renewal() noexcept {
  try {
    send_packet(kRenewalPacket);
  } catch (...) {
    // The variable of the descriptor is no number.
  }
}

bool is_recovery(std::string_view packet) noexcept {
  return packet == kRecoveryPacket;
}

void report_recovery(std::uint32_t standing) noexcept {
  if (standing == 0) return;
  try {
    const Lock lock(report_mutex);
    if (standing_report_number.load() != standing) return;
    standing_report_number.store(0);
    send_packet(kRecoveryPacket);
  } catch (...) {
    // The variable of the descriptor is no number.
  }
}

void report_peer_failure(const PeerFailure& failure) noexcept {
  try {
    const std::string packet = encode_peer_failure(failure);
    const Lock lock(report_mutex);
    if (!send_packet(packet)) return;
    if (++last_report == 0) ++last_report;
    standing_report_number.store(last_report);
  } catch (...) {
    // The group's error is reported to the program in any case.
  }
}

void report_waiting(const Waiting& waiting) noexcept {
  try {
    send_packet(encode_waiting(waiting));
  } catch (...) {
    // Out of memory: the wait's own deadline ends it.
  }
}

}  // namespace dl::rendezvous
