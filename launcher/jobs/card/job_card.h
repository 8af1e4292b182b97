// The card of a job: what `dlrun ps` shows of a dlrun, in memory that this dlrun writes and any
// process of its user may read, as /proc/PID/fd/N. Reading it disturbs no one: it works on a dlrun
// that is stopped or that hangs, and it ends with that dlrun.
//
// The memory is a memfd: a header, the facts as JSON, and an entry for each rank. Only dlrun itself
// has the descriptor: it is made after the warden is forked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

// The target of the descriptor's link in /proc.
inline constexpr const char* kCardName = "dlrun-job";

enum class CardState : std::uint32_t { kStarting, kRunning, kEnding };

// What does not change.
struct CardFacts {
  std::string job;
  std::string host;         // as this dlrun names it
  bool is_agent = false;    // a dlrun on another host has started this one
  std::optional<int> node;  // number of this node; nullopt: not numbered yet, or no node of the job
  int nodes = 1;
  std::vector<std::string> hosts;  // on which the ranks run, if dlrun starts them by ssh or srun
  std::vector<std::string> program;
  std::string log_dir;
  std::string version;
  std::int64_t began_ns = 0;  // since 1970
};

struct CardRank {
  enum class Is : std::uint32_t { kBeingStarted, kRunning, kEnded };
  std::int32_t rank = -1;
  std::int32_t pid = -1;    // in the PID namespace of the dlrun that started it
  std::int32_t status = 0;  // kEnded: as waitpid() gives it
  Is is = Is::kBeingStarted;
};

// The writer. A job that cannot have a card (no memory, no descriptor, ulimit -f) runs without one.
// One thread.
class JobCard {
 public:
  explicit JobCard(const CardFacts& facts);

  void set_state(CardState state);
  // The ranks of one node begin an attempt. Called once for each node of this dlrun.
  void attempt_began(int attempt, const std::vector<int>& ranks);
  void rank_started(int rank, int pid);
  void rank_ended(int rank, int pid, int status);

  int fd() const { return fd_.get(); }  // -1: there is no card

 private:
  void write_header();
  void write_rank(std::size_t at);
  void set_rank(const CardRank& rank);

  UniqueFd fd_;
  std::uint64_t most_bytes_;  // ulimit -f
  std::size_t text_bytes_ = 0;
  CardState state_ = CardState::kStarting;
  int attempt_ = 0;
  std::vector<CardRank> ranks_;
  std::unordered_map<int, std::size_t> places_;  // in ranks_, by rank
};

struct CardContent {
  CardFacts facts;
  CardState state = CardState::kStarting;
  int attempt = 0;
  std::vector<CardRank> ranks;
};

// nullopt: it is no card of this format. Parsed safely, whatever the file contains.
std::optional<CardContent> read_card(int fd);

}  // namespace dl::launcher
