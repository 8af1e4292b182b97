// PmiSpace: the rules of PMI-1, by which the processes of MPICH and its relatives find each other.
// It keeps what each rank has put and which ranks are in the barrier, and answers lines. Without
// sockets.
//
// Lines are "cmd=put kvsname=kvs key=K value=V". The words are those of MPICH's simple PMI
// (https://wiki.mpich.org, "PMI v1 wire protocol"); Hydra gives the same answers.
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
  // One rank may put at most this many keys. MPICH puts a handful.
  static constexpr int kMostPuts = 65536;

  struct Line {
    int rank;
    std::string text;  // with its end of line
  };
  struct Answer {
    std::vector<Line> lines;          // to the rank that asked, or to all at the end of a barrier
    std::string fault;                // empty: none; else the connection must be closed
    std::optional<int> abort_code{};  // the number given to MPI_Abort: the job must end
  };

  // A job on one node, whose ranks are 0 to size - 1. `apps`: the ranks of each of its programs;
  // the ranks of the first one come first. Empty: it has one.
  explicit PmiSpace(int size, const std::vector<int>& apps = {});

  // Answers a line, given without its end.
  Answer answer(int rank, std::string_view line);

  // The rank has ended, and the others live on: no barrier waits for it any more. Returns lines if
  // a barrier is over by this.
  Answer leave(int rank);

  // The ranks that have called the unfinished barrier, ascending; and the ranks that have not.
  std::vector<int> waiting() const;
  std::vector<int> awaited() const;
  // False: the rank has not come to MPI_Init, so ranks in the barrier wait there.
  bool has_begun(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).greeted; }
  // The files of shared memory of which a rank has told the others. MPICH removes such a file once
  // all have opened it, so one is left if a rank ends in MPI_Init.
  std::vector<std::string> shared_files() const;
  // The rank has come to MPI_Init, and not to the end of MPI_Finalize.
  bool is_in_mpi(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).in_mpi; }

 private:
  struct State {
    int app = 0;  // number of its program
    bool greeted = false;
    bool in_mpi = false;
    bool in_barrier = false;
    bool has_left = false;
    bool in_spawn = false;  // reads the lines of an `mcmd`
    int puts = 0;
  };

  Answer put(int rank, std::string_view line);
  std::string get(std::string_view line) const;
  Answer enter_barrier(int rank);
  Answer end_barrier_if_all_are_in();

  std::vector<State> ranks_;
  int in_barrier_ = 0;
  int left_ = 0;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace dl::launcher
