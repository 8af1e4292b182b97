// MpiServer: makes the ranks of one node processes of an MPI, for one generation.
//
// One thread. It must not be destroyed inside one of its callbacks.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

class MpiServer {
 public:
  struct Events {
    // A sentence for the user, for example about a long wait in MPI_Init.
    std::function<void(const std::string&)> on_note;
    // The rank has called MPI_Abort with `number`, any int, and waits for its end.
    std::function<void(int rank, int number)> on_abort;
    // The rank has ended before, and a process that it had left in MPI has now ended, too, without
    // MPI_Finalize.
    std::function<void(int rank)> on_left;
    // A rank has said something; waits() may have changed.
    std::function<void()> on_line;
    // The ranks cannot be served, or not any more; `why` is a sentence.
    std::function<void(const std::string& why)> on_lost;
  };
  // What a rank gets.
  struct Part {
    UniqueFd fd;                           // it inherits this descriptor as kPmiFd
    std::vector<std::string> environment;  // "NAME=value"
  };

  virtual ~MpiServer() = default;
  // Calls `start` once ranks can be started, now or later.
  virtual void when_ready(std::function<void()> start) = 0;
  // To be called once for each rank, when ranks can be started. Throws kIo.
  virtual Part add(int rank) = 0;
  // Takes what the rank has sent before it ended. Returns true if its process was in MPI: it has
  // come to MPI_Init, and not to MPI_Finalize.
  virtual bool ended(int rank) = 0;
  // The ranks of this node that wait in the start or the end of MPI for a rank that has ended, each
  // with that rank and the name of the call. Such a wait has no end.
  virtual std::map<int, rendezvous::Waiting> waits() const = 0;
  // To be called when no process is left of the ranks. `done` is called once nothing is left of the
  // server.
  virtual void finish(std::function<void()> done) = 0;
};

// A sentence for on_note. Both lists have a rank.
inline std::string waits_in_mpi(const std::vector<int>& waiting, const std::vector<int>& awaited,
                                std::chrono::seconds silence) {
  return fmt::format("{} {} in MPI's start or end for {}, after {} s",
                     rendezvous::rank_list(waiting), waiting.size() == 1 ? "waits" : "wait",
                     rendezvous::rank_list(awaited), silence.count());
}

}  // namespace dl::launcher
