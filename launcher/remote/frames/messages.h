// The messages between a frontend and the agent of a remote node, as values, and their encoding.
// They are the calls of agent_port.h and the frames of output/frame.h, for two processes that are
// connected by a pair of byte streams. docs/protocol.md, "A frontend and its remote agents", has
// the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/agent/agent_port.h"
#include "launcher/output/frame.h"

namespace dl::launcher::remote {

// An agent's first bytes. A login shell may have written text before them.
inline constexpr std::string_view kMagic(
    "\x89"
    "DLAGT\r\n",
    8);
// A frame: its type (u8), three zero bytes, the size of the body (u32), the body.
inline constexpr std::size_t kHeader = 8;
// A body holds a program's arguments and environment, which Linux limits to a few MiB.
inline constexpr std::size_t kMostBody = std::size_t{8} << 20;
// The most bytes of a rank's output in one frame.
inline constexpr std::size_t kMostOutput = std::size_t{64} << 10;
// Bytes of one stream that an agent may send before the frontend has given it credit for more.
inline constexpr std::uint32_t kFirstCredit = 1 << 20;
// Bytes of input that the frontend may send before the agent has room for more.
inline constexpr std::uint32_t kFirstInput = 1 << 16;

// From the agent.

// The agent's first message. It keeps its form in all versions.
struct Hello {
  std::uint32_t protocol = 0;  // kProtocolVersion
  std::string version;         // kVersion
};
// The agent cannot do what Start asks for, and ends.
struct Refused {
  int exit_code = 1;  // dlrun's
  std::string text;   // a sentence without the host's name
};
// From node 0: the endpoints at which its rendezvous listens.
struct Listening {
  std::vector<std::string> endpoints;  // "10.0.0.1:4711", "[fd00::1]:4711"; the preferred one first
};
struct Sentence {
  std::string text;
};
struct Attempt {
  int attempt = 0;
  std::vector<int> ranks;  // of the agent's node, by local rank
};
// An output frame.
struct Output {
  StreamId id;
  std::int64_t time_us = 0;  // since 1970
  bool is_last = false;
  std::string bytes;  // at most kMostOutput
};
// All nodes agree on how the generation ended.
struct Decided {
  Verdict verdict;
};
// This node's generation has failed and is over, and the node is about to begin the next one. All
// nodes do so, unless one is lost or the frontend ends the job.
struct BeginsAgain {
  Verdict verdict;
  int number = 0;  // of the restart, from 1
  int most = 0;    // --max-restarts
  std::int64_t delay_ms = 0;
};
// A file that a rank left after a failure, for the frontend's log folder.
struct RankFile {
  int attempt = 0;
  int rank = 0;
  std::string name;  // "error.json", "flight.rec"
  std::string bytes;
};
// The agent's last message: no process of the job is left on its host except `left`, a line for
// each.
struct Over {
  Verdict verdict;
  std::vector<std::string> left;
};

// From the frontend.

struct Start {
  std::string key;                                 // the job's, 64 hexadecimal digits
  std::string host;                                // the node's name, as the user wrote it
  std::vector<std::string> options;                // this node's dlrun line, without programs
  std::vector<std::vector<std::string>> programs;  // a line for each program of the job
  std::vector<int> runs;                 // indices of the programs that this node's ranks run
  std::string directory;                 // the ranks' working directory
  std::vector<std::string> environment;  // "NAME=value", added to the login's environment
  int progress_columns = 0;              // as in AgentSettings
  std::int64_t preempt_wait = -1;        // ms, as in AgentSettings; -1: none
};
// To nodes other than 0: the endpoints of the rendezvous.
struct Meet {
  std::vector<std::string> endpoints;
};
struct Stop {
  int exit_code = 1;
  std::string text;
  int signal = 0;
};
struct SignalRanks {
  int signal = 0;
};
struct Order {
  enum class What : std::uint8_t { kKillNow, kSuspend, kResume, kReport };
  What what = What::kKillNow;
};
// The frontend has shown this many bytes of a stream.
struct Credit {
  Stream stream = Stream::kOut;
  std::uint32_t bytes = 0;
};
// The frontend runs. An agent that hears nothing for a while ends. The agent answers with an Alive
// too: after the job's end, a frontend gives up an agent from which it hears nothing.
struct Alive {};
// To node 0: all ranks of the job are asked to save and end.
struct Save {
  std::string why;  // a clause, "SIGTERM"
};
// To node 0: bytes of the frontend's standard input, for rank 0. At most as many as there is room
// for.
struct Input {
  std::string bytes;  // empty: the end
};
// From node 0: room for this many more bytes. The first kFirstInput bytes need none.
struct InputRoom {
  std::uint32_t bytes = 0;
};

// The order is that of the type numbers on the wire, from 1.
using Value = std::variant<Hello, Refused, Listening, Sentence, Attempt, RankNews, Output, Decided,
                           RankFile, Over, Start, Meet, Stop, SignalRanks, Order, Credit, Alive,
                           Save, Input, InputRoom, BeginsAgain>;

// Encodes the whole frame. Throws kInvalidArgument if the body would have more than kMostBody
// bytes.
std::vector<std::uint8_t> encode(const Value& value);

// Decodes frames from received bytes.
class Decoder {
 public:
  // `after_magic`: the other side begins with kMagic, and bytes before it are skipped.
  explicit Decoder(bool after_magic) : awaits_magic_(after_magic) {}

  void feed(std::span<const std::uint8_t> bytes);
  // The next value; nullopt: more bytes are needed. Throws kParse if the bytes are no frame; the
  // decoder cannot be used after that.
  std::optional<Value> next();
  // True if no part of a frame waits for its rest.
  bool is_empty() const { return awaits_magic_ || at_ == bytes_.size(); }
  // The end of what came and was skipped, while the magic has not come.
  std::string_view noise() const { return awaits_magic_ ? std::string_view(noise_) : ""; }

 private:
  bool skip_to_magic();

  bool awaits_magic_;
  std::size_t skipped_ = 0;
  std::string noise_;
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;  // index of the first byte that is not decoded
};

}  // namespace dl::launcher::remote
