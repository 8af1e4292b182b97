// Finds the rank that was the first cause of a job's end: the rule alone, without processes or
// clocks. dlrun uses it for a job of one node, the rendezvous service for a job of several.
//
// A rank that fails by itself is the cause, at once. A rank whose group broke because of another
// rank (a follower) reports the blamed rank on its lifeline. The rule then looks at the blamed
// rank, at the rank that this one blames, and so on. The ranks may be on any node, and their ends
// may become known in any order. What it does depends on the blamed rank:
// clang-format off
//   it runs             ask its dlrun whether it is about to end. If not, the follower is the cause
//                       (after a timeout, the headline names the late rank first)
//   it ended with 0     it left the others waiting: the cause is that end
//   it is a follower    go on with the rank that it blames. If two hosts blame each other, the lost
//                       link between them is named, and no rank
//   it called something else
//                       the rank outside the majority is the cause. In a tie, or if only the counts
//                       of one pair differ, both sides are named, and the exit code is that of the
//                       higher rank
// clang-format on
// If the other ranks live on (OnFailure::kKeep), a failure counts until a rank outlives it: a rank
// that ends with 0 vouches that the job got over all failures before. The cause is then the first
// one that no rank has outlived, so it may go again.
//
// One thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/first_cause/restart_policy.h"
#include "rendezvous/net/lifeline.h"
#include "rendezvous/net/rank_list.h"

namespace dl::rendezvous {

// For a program that does not use dlrun's lifeline: the time that a rank may take to end after its
// connections have closed. An interpreter may take so long.
inline constexpr std::chrono::seconds kLostPeerWait{2};

// In place of a rank: any rank of the job.
inline constexpr int kAnyRank = -1;

// The end of one rank.
struct RankEnd {
  int rank = -1;
  pid_t pid = -1;
  int status = 0;         // as waitpid() returns it
  bool left_mpi = false;  // it ended with 0 after MPI_Init and without MPI_Finalize: a failure
  // It has called MPI_Abort with this number, and may still run: a failure.
  std::optional<int> aborted = std::nullopt;
  bool stopped = false;  // dlrun had begun to end the job, so the end is no sign of a cause
  std::optional<PeerFailure> follows = std::nullopt;
  // It reported nothing on the lifeline, but its last output says that a peer was lost
  // (says_peer_was_lost()).
  bool lost_peer = false;
  // For a search that does not have the rank's page: the page's first line, and the other lines.
  std::string text{};
  std::string detail{};

  bool failed() const { return status != 0 || left_mpi || aborted; }
  // True if it blames another rank, and not itself. A rank that was killed by SIGKILL is no
  // follower: its program did not end because of what it had reported.
  bool is_follower() const;
  // 128+n for signal n; 1 if it left MPI; the low byte of MPI_Abort's number, as with mpirun.
  int exit_code() const;
  std::string how() const;  // "was killed by signal 9 (SIGKILL)"
};

// A question to the dlrun of a rank: is it about to end? The answer is "no" when `patience` has
// passed.
struct Question {
  int rank = kAnyRank;
  std::chrono::milliseconds patience{0};
  bool operator==(const Question&) const = default;
};

struct Finding {
  int rank = -1;
  std::string headline{};            // replaces the headline of the rank's page; empty: keep it
  std::string clause{};              // appended to the headline of the rank's page
  std::vector<std::string> notes{};  // lines below it
  int exit_code = 1;
};

class FirstCause {
 public:
  // `hosts`: by rank; empty: all ranks are on one host.
  explicit FirstCause(std::vector<std::string> hosts = {}, OnFailure on_failure = OnFailure::kStop)
      : hosts_(std::move(hosts)), on_failure_(on_failure) {}

  void ended(RankEnd end);
  // Rank `rank` waits for another rank to come to the making of a group; Waiting::rank -1: no
  // longer.
  void waits(int rank, Waiting waiting);
  // The answer to question(): `rank` is not about to end; kAnyRank: no rank is.
  void goes_on(int rank);

  // The first cause, once it is known. It never changes with kStop. With kKeep, ask when all ranks
  // have ended: nullopt says that some rank has outlived every failure.
  const std::optional<Finding>& finding() const { return finding_; }
  // The question to answer next; nullopt if the cause is known or no rank has failed.
  const std::optional<Question>& question() const { return question_; }
  // All ends, in the order in which they became known.
  const std::vector<RankEnd>& ends() const { return ends_; }
  OnFailure on_failure() const { return on_failure_; }

 private:
  struct Trail;

  void judge();
  Trail follow(const RankEnd& from) const;
  const RankEnd* end_of(int rank) const;
  std::string host_of(int rank) const;
  bool asks(int rank, std::chrono::milliseconds patience);
  void find_early_end(int rank);
  void find_mismatch(const RankEnd& follower);
  void find_follower(const Trail& trail);
  std::map<std::string, std::vector<int>> waiters_for(int rank) const;

  std::vector<std::string> hosts_;
  OnFailure on_failure_;
  std::vector<RankEnd> ends_;
  std::size_t outlived_ = 0;  // kKeep: failures among so many first ends do not count any more
  std::map<int, Waiting> waiting_;  // by the rank that waits
  std::set<int> going_on_;
  std::optional<Question> question_;
  std::optional<Finding> finding_;
};

// The sentences of a job whose ranks live on. The first names the last of these ends, which is a
// failure; empty if none of the job's `ranks` is left. The second is for the end of a job that has
// outlived its failures; empty if there were none.
//   rank 1 (node 0, ...) ended with exit code 3 after 2.1 s; 2 ranks go on (--on-failure keep)
//   the job went on without rank 1, which failed; ranks 0 and 2 ended with exit code 0
std::string goes_on_without(const std::vector<RankEnd>& ends, std::size_t ranks);
std::string went_on_without(const std::vector<RankEnd>& ends);

// Why a rank failed that ended by itself after its group had broken; empty for any other end. It
// says only what this rank can know. In a mismatch the ranks that found it need not include the odd
// rank, which only the calls of all ranks show; and a lost connection has two ends.
//   because of rank 1 in all_reduce #1042
//   because of a lost connection to rank 1 in all_reduce #1042
//   because of a mismatch, having called all_reduce #1042 (f32[8] sum)
std::string why_it_failed(const RankEnd& end);
// "all_reduce #1042"; "a group" if the operation is not known.
std::string place_of(const Cause& cause);

}  // namespace dl::rendezvous
