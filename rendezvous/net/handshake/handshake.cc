#include "rendezvous/net/handshake/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/text/utf8.h"
#include "core/base/version.h"
#include "rendezvous/net/wire.h"

namespace dl::rendezvous {
namespace {

// The first byte is not ASCII and the last two are a line end, as in PNG. So text protocols and
// translated line ends are recognised at once.
constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'D', 'L', 'R', 'U', 'N', '\r', '\n'};
constexpr std::size_t kPreambleBytes = kMagic.size() + sizeof(std::uint32_t);
constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kLongestText = 255;
// The hello is the longest: nonce, generation, rank and three texts.
constexpr std::size_t kLongestBody = 32 + 8 + 4 + 3 * (1 + kLongestText);

constexpr std::string_view kServerLabel = "dlrun handshake 1, server proves";
constexpr std::string_view kClientLabel = "dlrun handshake 1, client proves";

void check_text(std::string_view what, std::string_view text) {
  DL_CHECK(text.size() <= kLongestText, kInvalidArgument,
           "handshake: {} has {} bytes, wanted at most {}", what, text.size(), kLongestText);
  DL_CHECK(is_printable_utf8(text), kInvalidArgument, "handshake: {} is not printable UTF-8", what);
}

std::string generation_text(std::uint64_t generation) {
  return generation == kAnyGeneration ? "no generation" : fmt::format("generation {}", generation);
}

// A client that sends no name still needs one in texts.
std::string_view name_of(const Hello& hello) {
  return hello.from.empty() ? std::string_view("an unnamed peer") : std::string_view(hello.from);
}

}  // namespace

Nonce fresh_nonce() {
  Nonce nonce;
  // getrandom() returns all bytes of a request of up to 256, once the random source is ready.
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    if (errno != EINTR) throw_errno(errno, "getrandom");
  }
  return nonce;
}

Handshake::Handshake(const JobKey& key, Hello self, const Nonce& nonce, Frame expected)
    : self_(std::move(self)),
      nonce_(nonce),
      expected_(expected),
      key_(key),
      is_server_(expected == Frame::kHello),
      wanted_(kPreambleBytes) {
  check_text("the job's name", self_.job);
  check_text("the purpose", self_.purpose);
  check_text("the speaker's name", self_.from);
}

std::size_t Handshake::wanted() const noexcept {
  return state_ == State::kRunning ? wanted_ - input_.size() : 0;
}

void Handshake::feed(std::span<const std::uint8_t> bytes) {
  DL_CHECK(bytes.size() <= wanted(), kInternal, "handshake: fed {} bytes, wanted at most {}",
           bytes.size(), wanted());
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (state_ != State::kRunning || input_.size() < wanted_) return;
  switch (step_) {
    case Step::kPreamble:
      return on_preamble();
    case Step::kHeader:
      return on_header();
    case Step::kBody:
      return on_body();
  }
}

void Handshake::on_preamble() {
  WireReader reader(input_);
  const std::span<const std::uint8_t> magic = reader.take_bytes(kMagic.size());
  const auto version = reader.take<std::uint32_t>();
  if (!std::equal(magic.begin(), magic.end(), kMagic.begin())) {
    fail_malformed("its first bytes are not those of dlrun's protocol");
    return;
  }
  if (is_server_) send_preamble();
  if (version != kProtocolVersion) {
    if (is_server_) send_refusal(Refusal::kProtocolVersion, kProtocolVersion, "");
    fail(Refusal::kProtocolVersion, refusal_text(Refusal::kProtocolVersion, version, ""));
    return;
  }
  input_.clear();
  step_ = Step::kHeader;
  wanted_ = kHeaderBytes;
}

void Handshake::on_header() {
  WireReader reader(input_);
  const auto type = reader.take<std::uint8_t>();
  const auto zero = reader.take<std::uint8_t>();
  const auto size = reader.take<std::uint16_t>();
  const bool in_place = type == static_cast<std::uint8_t>(expected_) ||
                        type == static_cast<std::uint8_t>(Frame::kRefuse);
  if (!in_place || zero != 0 || size > kLongestBody) {
    fail_malformed("it sent a frame of a wrong type or size");
    return;
  }
  step_ = Step::kBody;
  wanted_ = kHeaderBytes + size;
  if (size == 0) on_body();
}

void Handshake::on_body() {
  const std::vector<std::uint8_t> frame = std::exchange(input_, {});
  step_ = Step::kHeader;
  wanted_ = kHeaderBytes;
  const std::span<const std::uint8_t> body = std::span(frame).subspan(kHeaderBytes);
  if (static_cast<Frame>(frame[0]) == Frame::kRefuse) return on_refusal(body);
  if (expected_ == Frame::kHello || expected_ == Frame::kChallenge) {
    transcript_.insert(transcript_.end(), frame.begin(), frame.end());
  }
  on_expected(body);
}

std::span<const std::uint8_t> Handshake::output() const noexcept {
  return std::span(output_).subspan(output_begin_);
}

ErrorKind Handshake::error_kind() const noexcept {
  switch (refusal_) {
    case Refusal::kProtocolVersion:
    case Refusal::kWrongJob:
    case Refusal::kWrongGeneration:
    case Refusal::kUnknownPurpose:
    case Refusal::kDenied:
      return ErrorKind::kMismatch;
    case Refusal::kBusy:
      return ErrorKind::kConnection;
    case Refusal::kNone:
    case Refusal::kMalformed:
    case Refusal::kWrongKey:
      return ErrorKind::kAuthentication;
  }
  return ErrorKind::kAuthentication;
}

void Handshake::send_preamble() {
  WireWriter writer;
  writer.put_bytes(kMagic);
  writer.put(kProtocolVersion);
  output_.insert(output_.end(), writer.bytes().begin(), writer.bytes().end());
}

void Handshake::send_frame(Frame type, std::span<const std::uint8_t> body) {
  WireWriter writer;
  writer.put(static_cast<std::uint8_t>(type));
  writer.put(std::uint8_t{0});
  writer.put(static_cast<std::uint16_t>(body.size()));
  writer.put_bytes(body);
  output_.insert(output_.end(), writer.bytes().begin(), writer.bytes().end());
  if (type == Frame::kHello || type == Frame::kChallenge) {
    transcript_.insert(transcript_.end(), writer.bytes().begin(), writer.bytes().end());
  }
}

void Handshake::send_refusal(Refusal refusal, std::uint64_t number, std::string_view text) {
  WireWriter body;
  body.put(static_cast<std::uint8_t>(refusal));
  body.put(number);
  body.put_text(text);
  send_frame(Frame::kRefuse, body.bytes());
}

void Handshake::on_refusal(std::span<const std::uint8_t> body) {
  WireReader reader(body);
  const auto code = reader.take<std::uint8_t>();
  const auto number = reader.take<std::uint64_t>();
  const std::string text = reader.take_text();
  if (!reader.ok_and_done() || code < static_cast<std::uint8_t>(Refusal::kProtocolVersion) ||
      code > static_cast<std::uint8_t>(Refusal::kDenied) || !is_printable_utf8(text)) {
    fail_malformed("it sent an unknown refusal code");
    return;
  }
  const auto refusal = static_cast<Refusal>(code);
  fail(refusal, refusal_text(refusal, number, text));
}

void Handshake::fail(Refusal refusal, std::string reason) {
  state_ = State::kFailed;
  refusal_ = refusal;
  reason_ = std::move(reason);
}

void Handshake::fail_malformed(std::string_view what) {
  fail(Refusal::kMalformed, std::string(what));
}

std::array<std::uint8_t, 32> Handshake::proof(std::string_view label) const {
  std::vector<std::uint8_t> text(label.begin(), label.end());
  text.push_back(0);
  text.insert(text.end(), transcript_.begin(), transcript_.end());
  std::array<std::uint8_t, kProofBytes> result{};
  unsigned size = 0;
  const bool done = ::HMAC(::EVP_sha256(), key_.bytes().data(), JobKey::kBytes, text.data(),
                           text.size(), result.data(), &size) != nullptr;
  DL_CHECK(done && size == result.size(), kInternal, "handshake: OpenSSL has no HMAC-SHA256");
  return result;
}

bool Handshake::is_proof(std::string_view label, std::span<const std::uint8_t> claimed) const {
  const std::array<std::uint8_t, kProofBytes> expected = proof(label);
  return claimed.size() == expected.size() &&
         ::CRYPTO_memcmp(claimed.data(), expected.data(), expected.size()) == 0;
}

HandshakeClient::HandshakeClient(const JobKey& key, Hello hello, const Nonce& nonce)
    : Handshake(key, std::move(hello), nonce, Frame::kChallenge) {
  WireWriter body;
  body.put_bytes(nonce_);
  body.put(self_.generation);
  body.put(self_.rank);
  body.put_text(self_.job);
  body.put_text(self_.purpose);
  body.put_text(self_.from);
  send_preamble();
  send_frame(Frame::kHello, body.bytes());
}

void HandshakeClient::on_expected(std::span<const std::uint8_t> body) {
  if (expected_ == Frame::kChallenge) {
    on_challenge(body);
  } else if (expected_ == Frame::kProof) {
    if (is_proof(kServerLabel, body)) {
      send_frame(Frame::kProof, proof(kClientLabel));
      expected_ = Frame::kAccept;
    } else {
      send_refusal(Refusal::kWrongKey, 0, "");
      fail(Refusal::kWrongKey, refusal_text(Refusal::kWrongKey, 0, ""));
    }
  } else if (body.empty()) {
    state_ = State::kProved;
  } else {
    fail_malformed("its acceptance has a body");
  }
}

void HandshakeClient::on_challenge(std::span<const std::uint8_t> body) {
  WireReader reader(body);
  reader.take_bytes(sizeof(Nonce));
  peer_.generation = reader.take<std::uint64_t>();
  peer_.rank = reader.take<std::int32_t>();
  peer_.from = reader.take_text();
  peer_.job = self_.job;
  peer_.purpose = self_.purpose;
  if (!reader.ok_and_done() || !is_printable_utf8(peer_.from)) {
    fail_malformed("its challenge is malformed");
    return;
  }
  expected_ = Frame::kProof;
}

std::string HandshakeClient::refusal_text(Refusal refusal, std::uint64_t number,
                                          std::string_view text) const {
  switch (refusal) {
    case Refusal::kProtocolVersion:
      return fmt::format(
          "it speaks version {} of dlrun's protocol, this process version {}; install the same "
          "dlrun on every host",
          number, kProtocolVersion);
    case Refusal::kWrongJob:
      return fmt::format(
          "it belongs to job '{}', this process to job '{}'; the address or port is another job's",
          text, self_.job);
    case Refusal::kWrongKey:
      return fmt::format("wrong job key: it has another key for job '{}' than this process",
                         self_.job);
    case Refusal::kWrongGeneration:
      return fmt::format(
          "it is at {}, this process at {}; one of them is left from before a restart",
          generation_text(number), generation_text(self_.generation));
    case Refusal::kUnknownPurpose:
      return fmt::format("it does not serve '{}'", self_.purpose);
    case Refusal::kBusy:
      return "it has too many connections that have not proved themselves";
    case Refusal::kDenied:
      return fmt::format("it refused: {}", text);
    case Refusal::kNone:
    case Refusal::kMalformed:
      break;
  }
  return "it refused without a reason";
}

HandshakeServer::HandshakeServer(const JobKey& key, Hello self, Judge judge, const Nonce& nonce)
    : Handshake(key, std::move(self), nonce, Frame::kHello), judge_(std::move(judge)) {}

void HandshakeServer::refuse(Refusal refusal) {
  if (state_ != State::kRunning) return;
  // A client that has not sent the magic bytes may not be dlrun, and gets no answer.
  if (is_greeted()) send_refusal(refusal, 0, "");
  fail(refusal, refusal_text(refusal, 0, ""));
}

void HandshakeServer::on_expected(std::span<const std::uint8_t> body) {
  if (expected_ == Frame::kHello) {
    on_hello(body);
  } else {
    on_proof(body);
  }
}

void HandshakeServer::on_hello(std::span<const std::uint8_t> body) {
  WireReader reader(body);
  reader.take_bytes(sizeof(Nonce));
  peer_.generation = reader.take<std::uint64_t>();
  peer_.rank = reader.take<std::int32_t>();
  peer_.job = reader.take_text();
  peer_.purpose = reader.take_text();
  peer_.from = reader.take_text();
  if (!reader.ok_and_done() || !is_printable_utf8(peer_.job) || !is_printable_utf8(peer_.purpose) ||
      !is_printable_utf8(peer_.from)) {
    peer_ = {};
    fail_malformed("its hello is malformed");
    return;
  }
  if (peer_.job != self_.job) {
    send_refusal(Refusal::kWrongJob, 0, self_.job);
    fail(Refusal::kWrongJob, fmt::format("{} belongs to job '{}', this is job '{}'", name_of(peer_),
                                         peer_.job, self_.job));
    return;
  }
  WireWriter challenge;
  challenge.put_bytes(nonce_);
  challenge.put(self_.generation);
  challenge.put(self_.rank);
  challenge.put_text(self_.from);
  send_frame(Frame::kChallenge, challenge.bytes());
  send_frame(Frame::kProof, proof(kServerLabel));
  expected_ = Frame::kProof;
}

void HandshakeServer::on_proof(std::span<const std::uint8_t> body) {
  if (!is_proof(kClientLabel, body)) {
    send_refusal(Refusal::kWrongKey, 0, "");
    fail(Refusal::kWrongKey, refusal_text(Refusal::kWrongKey, 0, ""));
    return;
  }
  const Verdict verdict = judge_(peer_);
  if (verdict.refusal == Refusal::kNone) {
    send_frame(Frame::kAccept, {});
    state_ = State::kProved;
    return;
  }
  const std::string_view text = std::string_view(verdict.text).substr(0, kLongestText);
  send_refusal(verdict.refusal, verdict.generation, text);
  fail(verdict.refusal, refusal_text(verdict.refusal, verdict.generation, text));
}

std::string HandshakeServer::refusal_text(Refusal refusal, std::uint64_t number,
                                          std::string_view text) const {
  const std::string_view name = name_of(peer_);
  switch (refusal) {
    case Refusal::kProtocolVersion:
      return fmt::format("it speaks version {} of dlrun's protocol, this process version {}",
                         number, kProtocolVersion);
    case Refusal::kWrongKey:
      return fmt::format("wrong job key: {} has another key for job '{}'", name, self_.job);
    case Refusal::kWrongGeneration:
      return fmt::format("{} is at {}, this process at {}", name, generation_text(peer_.generation),
                         generation_text(number));
    case Refusal::kUnknownPurpose:
      return fmt::format("{} asked for '{}', which is not served here", name, peer_.purpose);
    case Refusal::kBusy:
      return "too many connections that have not proved themselves";
    case Refusal::kDenied:
      return fmt::format("{} was refused: {}", name, text);
    case Refusal::kNone:
    case Refusal::kWrongJob:
    case Refusal::kMalformed:
      break;
  }
  return fmt::format("{} gave up", name);
}

}  // namespace dl::rendezvous
