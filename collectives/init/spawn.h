// spawn: runs a function on several ranks of this machine, as torch.multiprocessing.spawn does.
//
//     dl::spawn([&](int rank) {  // in main()
//       dl::init_process_group();
//       train(rank, options);
//     }, 2);
//
// spawn() starts this program again, `nprocs` times, as the ranks of one job under dlrun. Each rank
// runs main() from its beginning, with the same arguments and environment, until it comes to the
// same call of spawn(). There it calls the function with its rank and exits with code 0. The first
// process waits, and continues when all ranks have ended. No thread or object is copied: the
// function sees what main() made before the call in its own process.
//
//   - Code before the call runs in every rank, too; is_spawned() is true there.
//   - A program may call spawn() several times. In ranks of the second call, the first one returns
//     at once. All processes of a program must come to the same calls in the same order.
//   - Rank 0 has the program's standard input. Lines that ranks print appear whole.
//   - dlrun is looked for beside the program, then in PATH.
//
// If the function of a rank throws, or a rank dies, dlrun ends the other ranks and spawn() throws
// SpawnError in the first process. If the first process dies, so do the ranks.
//
// Thread-safety: one thread at a time. SIGINT and SIGQUIT are ignored while spawn() waits, as with
// system(3), because dlrun handles them. If one of them ended the ranks, spawn() raises it again,
// so Ctrl-C and Ctrl-\ end the program as they would without ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace dl {

// How the rank that failed first ended. Its kind is kPeerFailed. The text names the rank, how it
// ended, the text of its exception or its last output, and how the other ranks ended.
class SpawnError : public Error {
 public:
  SpawnError(int rank, int exit_code, const std::string& text)
      : Error(ErrorKind::kPeerFailed, text), rank_(rank), exit_code_(exit_code) {}

  // -1: no single rank is the cause.
  int rank() const noexcept { return rank_; }
  // As a shell reports it: 1 after an exception, 128 + n after signal n.
  int exit_code() const noexcept { return exit_code_; }

 private:
  int rank_;
  int exit_code_;
};

// Returns in the first process only. Throws SpawnError. Throws kInvalidArgument without a function,
// for fewer than one rank, inside a spawned function, or if a launcher started this process as one
// of several ranks. Throws kNotFound if dlrun or the program's own file does not exist, and
// kMismatch if a rank ended before it came to this call.
void spawn(const std::function<void(int rank)>& function, int nprocs);
// As spawn(), and returns what the function returned on each rank, by rank. In a rank of a later
// call it returns nothing: a program uses the results only if they are not empty.
std::vector<std::string> spawn_for_results(const std::function<std::string(int rank)>& function,
                                           int nprocs);

// True if spawn() has started this process as a rank; already at the beginning of main().
bool is_spawned();

}  // namespace dl
