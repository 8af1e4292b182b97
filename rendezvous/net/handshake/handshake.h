// The handshake of every connection of a job, control plane and data plane (docs/protocol.md has
// its bytes).
//
// Both sides prove that they know the job key by an HMAC-SHA256 over both nonces and all other
// fields. So an attacker cannot replay or reflect a handshake, or use it for another job,
// generation or purpose. The key is never sent.
//
// HandshakeServer and HandshakeClient do no I/O: the caller feeds bytes in and takes bytes out. So
// they work with blocking sockets, event loops and fuzzers. One object serves one connection, and
// belongs to one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl::rendezvous {

// The purpose of a connection, and who asks for it. A client sends it, and a server refuses a
// purpose that it does not serve.
struct Hello {
  std::string job{};  // name of the job; at most 255 bytes
  // kAnyGeneration for control connections made before a generation exists
  std::uint64_t generation = 0;
  std::string purpose{};   // "store", "group/<name>", ...; at most 255 bytes
  std::string from{};      // the sender, for texts: "rank 3 (node1, pid 4711)"; at most 255 bytes
  std::int32_t rank = -1;  // the sender's rank, -1 if it has none
};
inline constexpr std::uint64_t kAnyGeneration = ~std::uint64_t{0};

// A connection that both sides have authenticated.
struct Connection {
  UniqueFd fd;          // non-blocking, close-on-exec, TCP_NODELAY
  Hello peer;           // the other side's hello
  std::string address;  // the other end, "10.0.0.2:4711"
};

inline constexpr std::chrono::seconds kHandshakeTime{5};
inline constexpr std::size_t kMostPendingHandshakes = 64;

// Why a connection is refused. The numbers are part of the protocol.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kMalformed = 1,  // not this protocol; never sent: such a connection is closed without an answer
  kProtocolVersion = 2,  // another version of dlrun
  kWrongJob = 3,         // the port belongs to another job
  kWrongKey = 4,         // the right job name, but another key
  kWrongGeneration = 5,  // the client or the server is from before a restart
  kUnknownPurpose = 6,   // the purpose is not served here
  kBusy = 7,             // too many pending handshakes; try again
  kDenied = 8,           // the service's own reason, as text
};

// What the server's owner decides about an authenticated client.
struct Verdict {
  Refusal refusal = Refusal::kNone;  // kNone, kWrongGeneration, kUnknownPurpose, kBusy or kDenied
  std::uint64_t generation = 0;      // the server's, for kWrongGeneration
  std::string text{};                // for kDenied: one clause, e.g. "rank 3 is already connected"
};

using Nonce = std::array<std::uint8_t, 32>;
Nonce fresh_nonce();  // from the kernel's random source

// The common part of both sides: input and output of frames, and the result.
class Handshake {
 public:
  enum class State : std::uint8_t { kRunning, kProved, kFailed };

  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  State state() const noexcept { return state_; }
  // How many bytes to read next; 0 once the handshake is over. Read no more than this: the bytes
  // after the handshake are for the next reader of the descriptor.
  std::size_t wanted() const noexcept;
  // Takes at most wanted() bytes.
  void feed(std::span<const std::uint8_t> bytes);
  // Bytes to send. There may be some after the end of the handshake (an acceptance or a refusal).
  // Call sent() with the number of bytes that were sent.
  std::span<const std::uint8_t> output() const noexcept;
  void sent(std::size_t size) noexcept { output_begin_ += size; }

  // Valid in kProved. In a server it also holds, before that, what was received so far.
  const Hello& peer() const noexcept { return peer_; }
  // Valid in kFailed.
  Refusal refusal() const noexcept { return refusal_; }
  ErrorKind error_kind() const noexcept;
  // One clause about the other side: "it belongs to job 'b', not to job 'a'; ...".
  const std::string& reason() const noexcept { return reason_; }

 protected:
  enum class Frame : std::uint8_t { kHello = 1, kChallenge, kProof, kAccept, kRefuse };

  Handshake(const JobKey& key, Hello self, const Nonce& nonce, Frame expected);
  ~Handshake() = default;

  // Handles a frame of type expected_. Sets the next expected type, or the state.
  virtual void on_expected(std::span<const std::uint8_t> body) = 0;
  // A clause about the other side's refusal, or about ours because of its protocol version.
  virtual std::string refusal_text(Refusal refusal, std::uint64_t number,
                                   std::string_view text) const = 0;

  void send_preamble();
  void send_frame(Frame type, std::span<const std::uint8_t> body);
  void send_refusal(Refusal refusal, std::uint64_t number, std::string_view text);
  void fail(Refusal refusal, std::string reason);
  void fail_malformed(std::string_view what);
  // HMAC over the label, the hello frame and the challenge frame.
  std::array<std::uint8_t, 32> proof(std::string_view label) const;
  bool is_greeted() const noexcept { return step_ != Step::kPreamble; }
  bool is_proof(std::string_view label, std::span<const std::uint8_t> claimed) const;

  Hello self_;
  Nonce nonce_;
  Hello peer_;
  State state_ = State::kRunning;
  Frame expected_;

 private:
  enum class Step : std::uint8_t { kPreamble, kHeader, kBody };
  void on_preamble();
  void on_header();
  void on_body();
  void on_refusal(std::span<const std::uint8_t> body);

  JobKey key_;
  bool is_server_;
  Step step_ = Step::kPreamble;
  std::size_t wanted_;
  std::vector<std::uint8_t> input_;
  std::vector<std::uint8_t> output_;
  std::size_t output_begin_ = 0;
  std::vector<std::uint8_t> transcript_;
  Refusal refusal_ = Refusal::kNone;
  std::string reason_;
};

class HandshakeClient final : public Handshake {
 public:
  // Throws kInvalidArgument if a text of the hello is longer than 255 bytes or not printable.
  HandshakeClient(const JobKey& key, Hello hello, const Nonce& nonce = fresh_nonce());
  // True if the server may have accepted already.
  bool has_proved_itself() const noexcept { return expected_ == Frame::kAccept; }

 private:
  void on_expected(std::span<const std::uint8_t> body) override;
  void on_challenge(std::span<const std::uint8_t> body);
  std::string refusal_text(Refusal refusal, std::uint64_t number,
                           std::string_view text) const override;
};

class HandshakeServer final : public Handshake {
 public:
  using Judge = std::function<Verdict(const Hello&)>;
  // `self`: job, generation, from and rank of the server; its purpose is not used. `judge` is
  // called once, for a client that has proved the key.
  HandshakeServer(const JobKey& key, Hello self, Judge judge, const Nonce& nonce = fresh_nonce());
  // Ends an unfinished handshake, with a refusal to the client.
  void refuse(Refusal refusal);

 private:
  void on_expected(std::span<const std::uint8_t> body) override;
  void on_hello(std::span<const std::uint8_t> body);
  void on_proof(std::span<const std::uint8_t> body);
  std::string refusal_text(Refusal refusal, std::uint64_t number,
                           std::string_view text) const override;

  Judge judge_;
};

}  // namespace dl::rendezvous
