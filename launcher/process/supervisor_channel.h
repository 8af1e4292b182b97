// What dlrun and its supervisor say to each other, over a SOCK_SEQPACKET pair: one message a
// packet, descriptors beside it. docs/protocol.md, "dlrun and its supervisor", has the bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"

namespace dl::launcher {

enum class MessageKind : std::uint32_t {
  // dlrun asks
  kSpawn = 1,   // start a process in a slot
  kSignal = 2,  // number: the signal for a slot's process group
  kFinish = 3,  // end whatever is left, say kFinished, and go; number: milliseconds of patience
                // before SIGTERM, -1: SIGKILL at once
  // the supervisor tells
  kStarted = 16,     // number: the process id
  kNotStarted = 17,  // number: errno; text: what failed
  kExited = 18,      // number: as waitpid() gives it
  kFinished = 19,    // nothing is left below the supervisor
  kWardenGone = 20,  // the supervisor kills the ranks and what they have started
};

// Slots below are local ranks, those above are dlrun's own helpers.
inline constexpr std::uint32_t kFirstHelperSlot = 0x80000000;
inline constexpr std::uint32_t kEveryRank = 0xffffffff;

struct Message {
  MessageKind kind{};
  std::uint32_t slot = 0;                // whose process
  std::int32_t number = 0;               // a signal, a process id, an exit status, an errno value
  std::string text;                      // kSpawn: the file to execute; kNotStarted: what failed
  std::vector<std::string> argv;         // kSpawn
  std::vector<std::string> environment;  // kSpawn: over the supervisor's own
  std::vector<std::int32_t> cpus;        // kSpawn: empty: not bound
  std::vector<std::int32_t> fd_numbers;  // kSpawn: which number each descriptor gets in the child
  std::vector<UniqueFd> fds;
};

// Both ends, close-on-exec, blocking.
std::pair<UniqueFd, UniqueFd> make_channel();

// False where a non-blocking channel is full, or the other end is gone (errno tells: EAGAIN or
// EPIPE). Throws kIo for anything else, e.g. a message that is too long for a packet.
bool send_message(int channel, const Message& message);

enum class Received : std::uint8_t { kMessage, kNothing, kClosed };
// kNothing: a non-blocking channel is empty. Throws kIo, and kParse for bytes that are no message.
Received receive_message(int channel, Message& message);

}  // namespace dl::launcher
