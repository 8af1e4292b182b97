#include "rendezvous/net/handshake/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/version.h"

namespace dl::rendezvous {
namespace {

using ::testing::HasSubstr;
using State = Handshake::State;
using Bytes = std::vector<std::uint8_t>;

const std::string kKeyText(64, 'a');
const std::string kOtherKeyText(64, 'b');

Hello client_hello() {
  return {.job = "j1", .generation = 3, .purpose = "store", .from = "rank 3 (node1)", .rank = 3};
}
Hello server_hello() {
  return {.job = "j1", .generation = 3, .purpose = "", .from = "store (node0)", .rank = 0};
}
Verdict accept_all(const Hello&) {
  return {};
}

Bytes take(Handshake& from) {
  const Bytes bytes(from.output().begin(), from.output().end());
  from.sent(bytes.size());
  return bytes;
}

// Feeds as much as is wanted; what is left over belongs to the connection after the handshake.
Bytes give(Handshake& to, Bytes bytes, std::size_t most_at_once = 4096) {
  while (!bytes.empty() && to.wanted() > 0) {
    const std::size_t n = std::min({bytes.size(), to.wanted(), most_at_once});
    to.feed(std::span(bytes).first(n));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return bytes;
}

void run(HandshakeClient& client, HandshakeServer& server, std::size_t most_at_once = 4096) {
  for (int round = 0; round < 4; ++round) {
    give(server, take(client), most_at_once);
    give(client, take(server), most_at_once);
  }
}

TEST(Handshake, ProvesBothSidesAndTellsEachAboutTheOther) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  run(client, server);
  ASSERT_EQ(client.state(), State::kProved);
  ASSERT_EQ(server.state(), State::kProved);
  EXPECT_EQ(server.peer().from, "rank 3 (node1)");
  EXPECT_EQ(server.peer().purpose, "store");
  EXPECT_EQ(server.peer().rank, 3);
  EXPECT_EQ(server.peer().generation, 3U);
  EXPECT_EQ(client.peer().from, "store (node0)");
  EXPECT_EQ(client.peer().rank, 0);
}

TEST(Handshake, WorksByteByByte) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  run(client, server, 1);
  EXPECT_EQ(client.state(), State::kProved);
  EXPECT_EQ(server.state(), State::kProved);
}

TEST(Handshake, TakesNoByteThatFollowsIt) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  give(server, take(client));
  give(client, take(server));
  give(server, take(client));
  Bytes last = take(server);
  const Bytes application{1, 2, 3};
  last.insert(last.end(), application.begin(), application.end());
  EXPECT_EQ(give(client, last), application);
  EXPECT_EQ(client.state(), State::kProved);
}

TEST(Handshake, NeverPutsTheKeyOnTheWire) {
  const JobKey key = JobKey::generate();
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  Bytes wire;
  for (int round = 0; round < 4; ++round) {
    for (Handshake* side : {static_cast<Handshake*>(&client), static_cast<Handshake*>(&server)}) {
      const Bytes bytes = take(*side);
      wire.insert(wire.end(), bytes.begin(), bytes.end());
      give(side == &client ? static_cast<Handshake&>(server) : client, bytes);
    }
  }
  ASSERT_EQ(client.state(), State::kProved);
  EXPECT_EQ(std::search(wire.begin(), wire.end(), key.bytes().begin(), key.bytes().end()),
            wire.end());
}

TEST(Handshake, AnotherKeyIsSaidOnBothSides) {
  HandshakeClient client(JobKey::from_hex(kOtherKeyText), client_hello());
  HandshakeServer server(JobKey::from_hex(kKeyText), server_hello(), accept_all);
  run(client, server);
  EXPECT_EQ(client.refusal(), Refusal::kWrongKey);
  EXPECT_EQ(server.refusal(), Refusal::kWrongKey);
  EXPECT_EQ(client.error_kind(), ErrorKind::kAuthentication);
  EXPECT_THAT(client.reason(), HasSubstr("wrong job key"));
  EXPECT_THAT(server.reason(), HasSubstr("wrong job key: rank 3 (node1)"));
}

TEST(Handshake, AnotherJobIsSaidOnBothSides) {
  Hello hello = client_hello();
  hello.job = "j2";
  HandshakeClient client(JobKey::from_hex(kOtherKeyText), hello);
  HandshakeServer server(JobKey::from_hex(kKeyText), server_hello(), accept_all);
  run(client, server);
  EXPECT_EQ(client.refusal(), Refusal::kWrongJob);
  EXPECT_EQ(client.error_kind(), ErrorKind::kMismatch);
  EXPECT_THAT(client.reason(), HasSubstr("it belongs to job 'j1', this process to job 'j2'"));
  EXPECT_THAT(server.reason(), HasSubstr("rank 3 (node1) belongs to job 'j2', this is job 'j1'"));
}

TEST(Handshake, JudgesGenerationPurposeAndOwnReasonsAfterTheProof) {
  const JobKey key = JobKey::from_hex(kKeyText);
  const auto refused = [&](Verdict verdict) {
    HandshakeClient client(key, client_hello());
    HandshakeServer server(key, server_hello(), [&](const Hello&) { return verdict; });
    run(client, server);
    EXPECT_EQ(client.refusal(), verdict.refusal);
    EXPECT_EQ(server.refusal(), verdict.refusal);
    return client.reason() + " | " + server.reason();
  };
  EXPECT_THAT(refused({.refusal = Refusal::kWrongGeneration, .generation = 4}),
              HasSubstr("it is at generation 4, this process at generation 3"));
  EXPECT_THAT(refused({.refusal = Refusal::kUnknownPurpose}),
              HasSubstr("it does not serve 'store' | rank 3 (node1) asked for 'store'"));
  EXPECT_THAT(refused({.refusal = Refusal::kDenied, .text = "rank 3 is already connected"}),
              HasSubstr("it refused: rank 3 is already connected"));
}

TEST(Handshake, AnotherProtocolVersionIsSaidOnBothSides) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  Bytes bytes = take(client);
  bytes[8] = static_cast<std::uint8_t>(kProtocolVersion + 1);
  give(server, bytes);
  EXPECT_EQ(server.refusal(), Refusal::kProtocolVersion);
  EXPECT_THAT(server.reason(),
              HasSubstr("it speaks version " + std::to_string(kProtocolVersion + 1)));
  // The refusal as a client of the next version would read it is the same frame; a client of this
  // one that meets a server of the next already stops at the preamble.
  Bytes answer = take(server);
  answer[8] = static_cast<std::uint8_t>(kProtocolVersion + 1);
  give(client, answer);
  EXPECT_EQ(client.refusal(), Refusal::kProtocolVersion);
  EXPECT_THAT(client.reason(), HasSubstr("install the same dlrun on every host"));
}

TEST(Handshake, OwnAnswersReflectedProveNothing) {
  const JobKey key = JobKey::from_hex(kKeyText);
  // An attacker without the key opens a connection and plays the server's words back to it.
  HandshakeServer server(key, server_hello(), accept_all);
  HandshakeClient stranger(JobKey::from_hex(kOtherKeyText), client_hello());
  give(server, take(stranger));
  const Bytes challenge_and_proof = take(server);
  // The last frame is the server's proof: header of 4 and 32 bytes.
  give(server, Bytes(challenge_and_proof.end() - 36, challenge_and_proof.end()));
  EXPECT_EQ(server.state(), State::kFailed);
  EXPECT_EQ(server.refusal(), Refusal::kWrongKey);

  HandshakeClient client(key, client_hello());
  give(client, take(client));
  EXPECT_EQ(client.state(), State::kFailed);
}

TEST(Handshake, ReplayedRecordingProvesNothing) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  const Bytes hello = take(client);
  give(server, hello);
  const Bytes challenge = take(server);
  give(client, challenge);
  const Bytes proof = take(client);
  give(server, proof);
  ASSERT_EQ(server.state(), State::kProved);

  HandshakeServer later(key, server_hello(), accept_all);
  give(later, hello);
  give(later, proof);
  EXPECT_EQ(later.refusal(), Refusal::kWrongKey);

  HandshakeClient victim(key, client_hello());
  give(victim, challenge);
  EXPECT_EQ(victim.refusal(), Refusal::kWrongKey);
}

TEST(Handshake, AnyChangedByteOfHelloOrChallengeIsNoticed) {
  const JobKey key = JobKey::from_hex(kKeyText);
  const std::size_t hello_size = HandshakeClient(key, client_hello()).output().size();
  for (std::size_t i = 0; i < hello_size; ++i) {
    HandshakeClient client(key, client_hello());
    HandshakeServer server(key, server_hello(), accept_all);
    Bytes hello = take(client);
    hello[i] ^= 0x01;
    give(server, hello);
    for (int round = 0; round < 3; ++round) {
      give(client, take(server));
      give(server, take(client));
    }
    EXPECT_NE(server.state(), State::kProved) << "byte " << i;
  }
  HandshakeServer sample(key, server_hello(), accept_all);
  HandshakeClient first(key, client_hello());
  give(sample, take(first));
  const std::size_t challenge_size = sample.output().size();
  for (std::size_t i = 0; i < challenge_size; ++i) {
    HandshakeClient client(key, client_hello());
    HandshakeServer server(key, server_hello(), accept_all);
    give(server, take(client));
    Bytes challenge = take(server);
    challenge[i] ^= 0x01;
    give(client, challenge);
    // A length that grew by a bit waits for a byte that does not come; nothing is proved.
    EXPECT_NE(client.state(), State::kProved) << "byte " << i;
    give(server, take(client));
    EXPECT_NE(server.state(), State::kProved) << "byte " << i;
  }
}

TEST(Handshake, RandomBytesGetNoAnswer) {
  const JobKey key = JobKey::from_hex(kKeyText);
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    HandshakeServer server(key, server_hello(), accept_all);
    Bytes bytes(random() % 600 + 12);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    give(server, bytes);
    EXPECT_EQ(server.refusal(), Refusal::kMalformed);
    EXPECT_TRUE(server.output().empty());
  }
}

TEST(Handshake, ControlCharactersInNamesAreMalformed) {
  const JobKey key = JobKey::from_hex(kKeyText);
  HandshakeClient client(key, client_hello());
  HandshakeServer server(key, server_hello(), accept_all);
  Bytes hello = take(client);
  hello.back() = '\n';  // the last byte of `from`
  give(server, hello);
  EXPECT_EQ(server.refusal(), Refusal::kMalformed);

  Hello bad = client_hello();
  bad.from = "rank 3\n";
  EXPECT_THROW(HandshakeClient(key, bad), Error);
  bad.from = std::string(256, 'x');
  EXPECT_THROW(HandshakeClient(key, bad), Error);
}

}  // namespace
}  // namespace dl::rendezvous
