#include "collectives/mpi/wire/requests.h"

#include <sched.h>

#include <algorithm>

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

Handle Requests::send_by(decltype(Module::send) how, const void* from, std::size_t bytes, int to,
                         int tag) {
  Handle request = 0;
  check(mpi_, how(from, bytes, to, tag, comm_, &request), "MPI_Isend");
  return request;
}

Handle Requests::receive(void* to, std::size_t bytes, int from, int tag) {
  Handle request = 0;
  check(mpi_, mpi_.receive(to, bytes, from, tag, comm_, &request), "MPI_Irecv");
  return request;
}

Handle Requests::all_gather(const void* own, void* all, std::size_t bytes) {
  Handle request = 0;
  check(mpi_, mpi_.all_gather(own, all, bytes, comm_, &request), "MPI_Iallgather");
  return request;
}

void Requests::send_matched_parts(std::vector<Handle>& open, const void* from, std::size_t bytes,
                                  int to, int tag) {
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    open.push_back(send_matched(static_cast<const std::byte*>(from) + at, part, to, tag));
  });
}

void Requests::receive_parts(std::vector<Handle>& open, void* to, std::size_t bytes, int from,
                             int tag) {
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    open.push_back(receive(static_cast<std::byte*>(to) + at, part, from, tag));
  });
}

bool Requests::have_ended(std::vector<Handle>& open) {
  while (!open.empty()) {
    if (!has_ended(open.back())) return false;
    open.pop_back();
  }
  return true;
}

int Requests::end_some(std::span<Handle> open) {
  int ended = 0;
  if (open.size() == 1) {  // unlike MPI_Testsome, MPI_Test sees what its own look has brought
    if (!has_ended(open.front())) return 0;
    open.front() = 0;
    return 1;
  }
  const int code = mpi_.test_some(open.data(), static_cast<int>(open.size()), &ended);
  if (code != 0) check(mpi_, code, "group '" + group_ + "'");
  return ended;
}

std::optional<int> Requests::sender_of(Handle& request) {
  Ended ended{};
  const int code = mpi_.test(&request, &ended);
  if (code != 0) check(mpi_, code, "group '" + group_ + "'");
  return ended.is_ended ? std::optional(ended.source) : std::nullopt;
}

void Requests::cancel(Handle request) noexcept {
  Ended ended{};
  mpi_.cancel(request);
  while (mpi_.test(&request, &ended) == 0 && !ended.is_ended) ::sched_yield();
}

}  // namespace dl::collectives::mpi
