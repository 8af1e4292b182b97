// The handshake against anything that a stranger, or an attacker in the middle, may send.
//
// The first byte picks the scene, the rest is the script:
//   0  a server reads the script; it must never be proved
//   1  a client reads the script; it must never be proved
//   2  both talk to each other with the script xored over what they say; a change anywhere must not
//      leave both proved
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "rendezvous/net/handshake/handshake.h"

namespace {

using namespace dl::rendezvous;
using Bytes = std::span<const std::uint8_t>;
using State = Handshake::State;

// Fixed, so that a finding can be run again.
const JobKey& key() {
  static const JobKey& instance = *new JobKey(JobKey::from_hex(std::string(64, '7')));
  return instance;
}

HandshakeServer make_server() {
  return {key(),
          {.job = "fuzz", .from = "server"},
          [](const Hello& peer) -> Verdict {
            if (peer.purpose == "store") return {};
            return {.refusal = Refusal::kUnknownPurpose};
          },
          Nonce{1}};
}

HandshakeClient make_client() {
  return {key(), {.job = "fuzz", .purpose = "store", .from = "client", .rank = 3}, Nonce{2}};
}

void read(Handshake& side, Bytes script) {
  while (!script.empty() && side.wanted() > 0) {
    const std::size_t n = std::min(script.size(), side.wanted());
    side.feed(script.first(n));
    script = script.subspan(n);
    side.sent(side.output().size());
  }
  if (side.state() == State::kProved) __builtin_trap();
  if (side.state() == State::kFailed && side.reason().empty()) __builtin_trap();
}

void meddle(Bytes script) {
  HandshakeServer server = make_server();
  HandshakeClient client = make_client();
  std::size_t position = 0;
  bool changed = false;
  const auto pass = [&](Handshake& from, Handshake& to) {
    std::vector<std::uint8_t> bytes(from.output().begin(), from.output().end());
    from.sent(bytes.size());
    for (std::uint8_t& byte : bytes) {
      const std::uint8_t change = position < script.size() ? script[position] : std::uint8_t{0};
      ++position;
      changed = changed || change != 0;
      byte ^= change;
    }
    Bytes rest = bytes;
    while (!rest.empty() && to.wanted() > 0) {
      const std::size_t n = std::min(rest.size(), to.wanted());
      to.feed(rest.first(n));
      rest = rest.subspan(n);
    }
  };
  for (int round = 0; round < 3; ++round) {
    pass(client, server);
    pass(server, client);
  }
  const bool proved = server.state() == State::kProved && client.state() == State::kProved;
  if (proved == changed) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes script(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0: {
      HandshakeServer server = make_server();
      read(server, script);
      break;
    }
    case 1: {
      HandshakeClient client = make_client();
      client.sent(client.output().size());
      read(client, script);
      break;
    }
    default:
      meddle(script);
  }
  return 0;
}
