#include "collectives/mpi/wire/requests.h"

#include <sched.h>

#include <algorithm>

#include "collectives/call/options.h"

namespace dl::collectives::mpi {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// Calls start(offset, bytes) for each MPI message of a transfer.
template <typename F>
void for_each_part(std::size_t bytes, const F& start) {
  for (std::size_t at = 0; at < bytes; at += kMostBytes)
    start(at, std::min(kMostBytes, bytes - at));
}

}  // namespace

void Requests::send_by(decltype(Module::send) how, std::vector<Handle>& open, const void* from,
                       std::size_t bytes, int to, int tag) {
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    Handle request = 0;
    check(mpi_, how(static_cast<const std::byte*>(from) + at, part, to, tag, comm_, &request),
          "MPI_Isend");
    open.push_back(request);
  });
}

void Requests::receive(std::vector<Handle>& open, void* to, std::size_t bytes, int from, int tag) {
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    Handle request = 0;
    check(mpi_, mpi_.receive(static_cast<std::byte*>(to) + at, part, from, tag, comm_, &request),
          "MPI_Irecv");
    open.push_back(request);
  });
}

Handle Requests::receive_any(void* to, std::size_t bytes, int tag) {
  Handle request = 0;
  check(mpi_, mpi_.receive(to, bytes, kAnySource, tag, comm_, &request), "MPI_Irecv");
  return request;
}

void Requests::all_gather(std::vector<Handle>& open, const void* own, void* all,
                          std::size_t bytes) {
  Handle request = 0;
  check(mpi_, mpi_.all_gather(own, all, bytes, comm_, &request), "MPI_Iallgather");
  open.push_back(request);
}

void Requests::broadcast(std::vector<Handle>& open, void* buffer, std::size_t bytes, int root) {
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    Handle request = 0;
    check(mpi_, mpi_.broadcast(static_cast<std::byte*>(buffer) + at, part, root, comm_, &request),
          "MPI_Ibcast");
    open.push_back(request);
  });
}

bool Requests::have_ended(std::vector<Handle>& open) {
  while (!open.empty()) {
    Ended ended{};
    const int code = mpi_.test(&open.back(), &ended);
    if (code != 0) check(mpi_, code, "group '" + group_ + "'");
    if (!ended.is_ended) return false;
    open.pop_back();
  }
  return true;
}

std::optional<int> Requests::sender_of(Handle& request) {
  Ended ended{};
  check(mpi_, mpi_.test(&request, &ended), "MPI_Test");
  return ended.is_ended ? std::optional(ended.source) : std::nullopt;
}

void Requests::cancel(Handle request) noexcept {
  Ended ended{};
  mpi_.cancel(request);
  while (mpi_.test(&request, &ended) == 0 && !ended.is_ended) ::sched_yield();
}

}  // namespace dl::collectives::mpi
