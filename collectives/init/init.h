// init_process_group: makes this process a rank of a job.
//
//     dl::init_process_group();  // under dlrun, mpirun, srun, or alone
//     float x[2] = {1, 2};
//     dl::default_group()->all_reduce({.input = x, .output = x, .count = 2})->wait();
//     dl::destroy_process_group();
//
// The default group is the only state that belongs to the process. It owns the connection to the
// store, the progress thread and the group. The functions that make groups take all options as
// arguments, so ranks may also be threads (make_tcp_group).
//
// The rank and the world size come from the options, else from RANK and WORLD_SIZE, else from the
// variables of mpirun (OMPI_COMM_WORLD_*, PMI_*) or srun (SLURM_*). Without any of these the
// process is a world of one, which needs no key, socket or gRPC. The ranks meet in a store:
//   env://             at DLRUN_STORE (set by dlrun), else rank 0 serves it at
//                      MASTER_ADDR:MASTER_PORT
//   tcp://host:port    rank 0 serves it there
//   file:///directory  a directory that all ranks share and that belongs to this user. The last
//                      rank to leave removes the store's files, and the directory if dlrun made it.
//                      A directory with remains of an earlier run is refused.
//
// After destroy_process_group() it may be called again. A rank's n-th init of a name meets the n-th
// init of the other ranks, with any init method. If rank 0 serves the store, it does so until its
// process ends.
//
// The job key comes from DLRUN_KEY_FD or DLRUN_KEY_FILE; with file://, rank 0 writes one into the
// directory. Without a key the ranks must be on one host, and communicate over its loopback.
//
// Thread-safety: any thread; init and destroy exclude each other.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/api/process_group.h"
#include "collectives/join/agree.h"

namespace dl {

struct ProcessGroupOptions {
  // The same on all ranks. "auto" takes DLRUN_BACKEND if it is set. Otherwise it chooses "shm" if
  // all ranks share a node, and "hybrid" if some do. It chooses "tcp" if no ranks share a node, or
  // if ranks of one node cannot share memory. "mpi" is for ranks that mpirun or srun started; only
  // this backend needs no init method, store or key. "nccl" is "auto" for CPU memory, and CUDA
  // memory must go over NCCL (device_group.h).
  std::string backend = "auto";
  std::string init_method = "env://";
  std::optional<int> rank{};
  std::optional<int> world_size{};
  // Deadline of an operation, and of init_process_group() itself; nullopt: DLRUN_TIMEOUT, else 600
  // s.
  std::optional<std::chrono::nanoseconds> timeout{};
  std::string name = "world";
  // The plan of collectives over TCP (algorithms/plan.h): a file, else DLRUN_PLAN, else
  // ~/.config/dlrun/plan, else the built-in plan. Rank 0's plan counts for all ranks.
  std::string plan{};
  // "ring" or "all_reduce:ring,broadcast:chain", else DLRUN_ALGORITHM; over TCP and MPI. If set
  // here, "auto" means "tcp". Rank 0's value counts for all ranks.
  std::string algorithm{};
};

// Collective: every rank calls it; returns when all ranks have come. Throws kInvalidArgument if
// there is a default group already, in this process or in a living one that has this rank's place
// in a job of dlrun, or the environment is inconsistent, kTimeout naming the missing ranks,
// kMismatch, kAuthentication, kConnection. If two processes come as one rank, all ranks get a
// kMismatch that names both. It may be called again after an error: ranks that try again meet,
// however often each of them has tried before.
void init_process_group(const ProcessGroupOptions& options = {});
// Leaves the default group, in which other ranks may still be working. Does nothing without a
// group. A program may still hold the group, but its calls throw kInvalidArgument. Operations that
// are under way in it go on for at most 5 s, as long as they make progress; dropping the last
// reference ends the rest. The backend "mpi" leaves only when the last reference is dropped.
void destroy_process_group();
bool is_initialized() noexcept;

// Whether init_process_group() of this program can take the backend: "auto", "tcp", "shm" and
// "hybrid" always; "mpi" if dlrun was built with an MPI and its module is there; "nccl" if the
// NCCL module and NCCL can be opened, on a machine with or without GPUs. False for other names.
bool is_backend_available(std::string_view backend) noexcept;
inline bool is_nccl_available() noexcept {
  return is_backend_available("nccl");
}
inline bool is_mpi_available() noexcept {
  return is_backend_available("mpi");
}
// For what Gloo does in PyTorch there are "tcp", "shm" and "hybrid".
inline bool is_gloo_available() noexcept {
  return is_backend_available("tcp");
}

// Rank in the default group. Without a group: rank 0 of 1, so that a program also runs alone.
int rank() noexcept;
int world_size() noexcept;
// Throws kInvalidArgument before init_process_group().
Ref<collectives::ProcessGroup> default_group();

// Collective over the group: splits it into one group for the ranks of each node, in its order.
Ref<collectives::ProcessGroup> split_by_node(collectives::ProcessGroup& group);

// Collective over the ranks that are left, after some of the group's ranks have died or left it, or
// with all: they agree who they are, and make a new group, in the same order and with numbers from
// 0. It has the same backend and a fresh secret, and its name ends with "~1", "~2" and so on. The
// old group is aborted. A group of make_group() or init_process_group() can be re-formed, and a
// group that this returns, again and again; the default group is replaced. Needs no store, and rank
// 0 may be dead. NCCL makes a new communicator at the first operation on a GPU.
//
// Throws kTimeout naming a rank that lives, but has not called it (`timeout`, else the group's), or
// that cannot be reached; then it may be called again. kNotImplemented over MPI, and
// kInvalidArgument for a group that was made by split() or was re-formed before.
Ref<collectives::ProcessGroup> reform(const Ref<collectives::ProcessGroup>& group,
                                      std::optional<std::chrono::nanoseconds> timeout = {});

// Lets all ranks of the job agree on a flag, even after the default group broke and with ranks gone
// (collectives/join/agree.h). The result is "and" over the flags of the ranks that came in time,
// that is before the `patience` of any waiting rank ended. A name is used once. If rank 0 serves
// the store (without dlrun), it must not exit before the other ranks have their answer. Throws
// kInvalidArgument before init_process_group(), and what the store throws. Must not run while
// another thread destroys the group.
collectives::Agreement agree(std::string_view name, bool flag, std::chrono::nanoseconds patience);

}  // namespace dl
