// The page of truth at the end of a failed job: the first cause, the last output of that rank, and
// the ends of the other ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/first_cause/restart_policy.h"

namespace dl::launcher {

using rendezvous::rank_list;
using rendezvous::RankEnd;

// The facts about one local rank for the report.
struct RankFacts {
  int rank = -1;
  pid_t pid = -1;
  bool started = false;
  bool ended = false;
  int ended_by = 0;  // dlrun's signal that ended it; 0: another reason
  std::chrono::milliseconds ran{0};
  // Of a rank that failed: processes of its control group that the kernel has killed for want of
  // memory since the ranks began. nullopt: not known.
  std::optional<std::uint64_t> memory_kills;
  RankEnd end;
  std::string stderr_tail;
  std::string stdout_tail;
  std::string error_file;  // content of TORCHELASTIC_ERROR_FILE
};

struct Place {
  std::string host;
  int node = 0;
};

// "rank 1 (node 0, host vm, pid 4711) was killed by signal 9 (SIGKILL) after 12.3 s", and after a
// colon the message in its error file.
std::string describe_end(const RankFacts& rank, const Place& place);

// The last output of the rank, without line breaks in the lines. `by_name`: names the rank, if the
// line above is about several ranks or hosts.
std::vector<std::string> last_words(const RankFacts& rank, bool by_name = false);

// "ended by dlrun with SIGTERM", "failed because of rank 1 in all_reduce #16". A signal is called
// dlrun's only if dlrun sent it. A rank is said to have failed because of another one only if it
// ended by itself after its group broke.
std::string fate_of(const RankFacts& rank);

// "ranks 0 and 2-7: ended by dlrun with SIGTERM; rank 1: ended with exit code 0"; empty if there
// are no other ranks.
std::string fate_of_others(int cause, const std::vector<RankFacts>& all);

// The content that torch's `record` decorator wrote ({"message": {"message": ...}}), or any other
// text.
struct ErrorFile {
  std::string message;  // one line
  std::string text;     // message or stack, cut to a page
};
ErrorFile read_error_file(const std::string& content);

// "restart 1 of 3: all ranks begin again in 2 s, as they fail soon after each start"
std::string restart_sentence(const rendezvous::Restart& restart);

// The last Python traceback and what follows it; without a traceback, the last lines.
// `last_words`: the end of the rank's stderr.
std::string_view last_message(std::string_view last_words);

// True if a program that does not know dlrun lost a peer, by its last output: PyTorch over gloo or
// NCCL reports it only on its stderr. This is a guess, so it decides only for which failures dlrun
// waits. If no other rank fails in time, the rank with this output is the cause. Only
// last_message() counts.
bool says_peer_was_lost(std::string_view last_words);
// True if the rank could not listen on a port because another process does. Used only for a hint.
bool says_port_was_taken(std::string_view last_words);

}  // namespace dl::launcher
