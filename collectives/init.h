// init_process_group: how a program becomes a rank of a job.
//
//     dl::init_process_group();  // under dlrun, mpirun, srun, or alone
//     float x[2] = {1, 2};
//     dl::default_group()->all_reduce({.input = x, .output = x, .count = 2})->wait();
//     dl::destroy_process_group();
//
// The default group is the only state that belongs to the process; it owns the connection to the
// store, the progress thread and the group. Everything below takes its options as arguments, so
// that ranks may also be threads (make_tcp_group).
//
// Who this rank is comes from the options, else from RANK and WORLD_SIZE, else from what mpirun
// (OMPI_COMM_WORLD_*, PMI_*) or srun (SLURM_*) set; with none of these it is a world of one, which
// needs no key, socket or gRPC. Where the ranks meet:
//   env://             DLRUN_STORE (set by dlrun), else rank 0 serves at MASTER_ADDR:MASTER_PORT
//   tcp://host:port    rank 0 serves there
//   file:///directory  a directory that all ranks share and that belongs to this user; the last
//   rank to call destroy_process_group() removes what is in it, and one that an earlier run has
//   left is refused
// After destroy_process_group() it may be called again: a rank's n-th init of a name meets the n-th
// of the others, with any init method. Where rank 0 serves the store, it does so until its process
// ends.
// The job key comes from DLRUN_KEY_FD or DLRUN_KEY_FILE; with file:// rank 0 leaves one in the
// directory. Without a key the ranks must be on one host, and talk over its loopback.
//
// Thread-safety: any thread; init and destroy exclude each other.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "collectives/agree.h"
#include "collectives/process_group.h"

namespace dl {

struct ProcessGroupOptions {
  // "auto": "shm" where all ranks share a node, "hybrid" where some do, else, and where those that
  // do cannot share memory, "tcp"; DLRUN_BACKEND may name another. The same on all ranks. "mpi":
  // where mpirun or srun started the ranks; it alone needs no init method, store or key. "nccl": as
  // "auto", but CUDA memory goes over NCCL or not at all (device_group.h).
  std::string backend = "auto";
  std::string init_method = "env://";
  std::optional<int> rank{};
  std::optional<int> world_size{};
  // Deadline of an operation, and of the ranks' meeting; nullopt: DLRUN_TIMEOUT, 600 s.
  std::optional<std::chrono::nanoseconds> timeout{};
  std::string name = "world";
  // Of collectives over TCP (algorithms/plan.h): a file, else DLRUN_PLAN, else
  // ~/.config/dlrun/plan, else built in; and "ring" or "all_reduce:ring,broadcast:chain", else
  // DLRUN_ALGORITHM. Rank 0's count. With an algorithm, "auto" is "tcp".
  std::string plan{};
  std::string algorithm{};
};

// Collective: every rank calls it; returns when all have come. Throws kInvalidArgument where it is
// called twice or the environment makes no sense, kTimeout with who is missing, kMismatch,
// kAuthentication, kConnection.
void init_process_group(const ProcessGroupOptions& options = {});
// Says goodbye to the other ranks, which may still be working. Harmless where there is no group.
// A program that still holds the default group cannot call it: calls throw kInvalidArgument. If it
// is held while operations are under way, they go on for as long as they move, at most 5 s; when
// the last reference is dropped, what is left of them ends. The backend "mpi" says its goodbye only
// then.
void destroy_process_group();
bool is_initialized() noexcept;

// Of the default group. Without one: rank 0 of 1, so that a program also runs alone.
int rank() noexcept;
int world_size() noexcept;
// Throws kInvalidArgument before init_process_group().
Ref<collectives::ProcessGroup> default_group();

// Agreement of all ranks of the job on a flag, also after the default group broke and with ranks
// gone (collectives/agree.h): "and" of the flags of those that came within `patience` of the first
// to lose it. A name is used once. Where rank 0 serves the store, without dlrun that is, it must
// not leave before the others have their answer. Throws kInvalidArgument before
// init_process_group(), and what the store throws; not while another thread destroys the group.
collectives::Agreement agree(std::string_view name, bool flag, std::chrono::nanoseconds patience);

}  // namespace dl
