// The rules of PMI-1, by which the processes of MPICH and its relatives find each other: what each
// rank has put, who is in the barrier, and what is answered to a line. Without sockets.
//
// Lines are "cmd=put kvsname=kvs key=K value=V". The words are those of MPICH's simple PMI
// (https://wiki.mpich.org, "PMI v1 wire protocol"); Hydra answers alike.
//
// One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dl::launcher {

class PmiSpace {
 public:
  // Limits that are told to the ranks; a longer key or value is refused.
  static constexpr int kMostName = 256;
  static constexpr int kMostKey = 64;
  static constexpr int kMostValue = 1024;
  // Keys that one rank may put. MPICH puts a handful.
  static constexpr int kMostPuts = 65536;

  struct Line {
    int rank;
    std::string text;  // with its end of line
  };
  struct Answer {
    std::vector<Line> lines;          // to the rank that asked, or to all at the end of a barrier
    std::string fault;                // empty: none; else the connection is to be closed
    std::optional<int> abort_code{};  // of MPI_Abort: the job is to end
  };

  // A job on one node, whose ranks are 0 to size - 1.
  explicit PmiSpace(int size);

  // Answers a line, which comes without its end.
  Answer answer(int rank, std::string_view line);

  // The ranks that have called the barrier which is not over, ascending; and those that have not.
  std::vector<int> waiting() const;
  std::vector<int> awaited() const;

 private:
  struct State {
    bool greeted = false;
    bool in_barrier = false;
    bool in_spawn = false;  // reads the lines of an `mcmd`
    int puts = 0;
  };

  Answer put(int rank, std::string_view line);
  std::string get(std::string_view line) const;
  Answer enter_barrier(int rank);

  std::vector<State> ranks_;
  int in_barrier_ = 0;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace dl::launcher
