// The messages between dlrun, its warden and its supervisors, over SOCK_SEQPACKET pairs: one
// message a packet, with descriptors beside it. docs/protocol.md, "dlrun, its warden and its
// supervisors", has the bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

enum class MessageKind : std::uint32_t {
  // from dlrun, to a supervisor for ranks, to the warden for helpers
  kSpawn = 1,   // start a process in a slot
  kSignal = 2,  // number: the signal for a slot's process group
  // from dlrun to a supervisor
  kFinish = 3,  // end every process that is left, send kFinished, exit; number: a Leftovers. A
                // second one may follow kWait
  // from dlrun to the warden
  kBegin = 4,  // fork the supervisor of the next generation; the descriptor: its end of the channel
  // from both
  kStarted = 16,     // number: the process id
  kNotStarted = 17,  // number: errno; text: the step that failed
  kExited = 18,      // number: as waitpid() gives it
  // from a supervisor
  kFinished = 19,    // no process is left below the supervisor
  kWardenGone = 20,  // the supervisor kills the ranks and all that they have started
  // from the warden
  kSwept = 21,  // the supervisor has exited, and no process of its generation is left; number: its
                // status as waitpid() gives it
  kNoSupervisor = 22,  // the supervisor of the next generation could not be forked; number: errno
};

inline constexpr std::uint32_t kEverySlot = 0xffffffff;

// What a supervisor does with the processes that the ranks have left behind.
enum class Leftovers : std::int32_t {
  kKill = -1,  // SIGKILL
  kEnd = 0,    // SIGTERM, then SIGKILL
  kWait = 1,   // waits until none is left, or for another order
};

struct Message {
  MessageKind kind{};
  std::uint32_t slot = 0;   // of the process
  std::int32_t number = 0;  // a signal, a process id, an exit status, an errno value; kSpawn of a
                            // rank: index of the job's program
  std::string text;         // kSpawn: the file to execute; kNotStarted: the step that failed
  std::vector<std::string> argv;         // kSpawn; empty: a program of the job, and no `text`
  std::vector<std::string> environment;  // kSpawn: added to dlrun's environment at its start
  std::vector<std::int32_t> cpus;        // kSpawn: empty: not bound
  std::vector<std::int32_t> fd_numbers;  // kSpawn: the number of each descriptor in the child
  std::vector<UniqueFd> fds;
};

// The message kSignal for the process group of `slot`, or of every slot (kEverySlot).
Message signal_message(std::uint32_t slot, int signal);

// Makes both ends, blocking and close-on-exec.
std::pair<UniqueFd, UniqueFd> make_channel();

// Returns false if a non-blocking channel is full, or the other end is gone (errno: EAGAIN or
// EPIPE). Throws kIo for anything else, e.g. a message that is too long for a packet.
bool send_message(int channel, const Message& message);

enum class Received : std::uint8_t { kMessage, kNothing, kClosed };
// kNothing: a non-blocking channel is empty. Throws kIo, and kParse if the bytes are no message.
Received receive_message(int channel, Message& message);

}  // namespace dl::launcher
