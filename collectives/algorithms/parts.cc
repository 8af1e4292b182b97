#include "collectives/algorithms/parts.h"

#include "collectives/algorithms/chunks.h"

namespace dl::collectives {

std::vector<Part> pack(std::span<const std::size_t> counts, std::size_t element) {
  std::vector<Part> parts;
  parts.reserve(counts.size());
  std::size_t offset = 0;
  for (const std::size_t count : counts) {
    parts.push_back({offset, count * element});
    offset += count * element;
  }
  return parts;
}

// The root answers with a header, so that no rank leaves without having heard of a mismatch.
Schedule gather_schedule(std::span<const Part> parts, int root, int rank, int size) {
  Schedule s;
  if (rank != root) {
    const Part own = parts[static_cast<std::size_t>(rank)];
    s.sends.push_back(
        {.peer = root, .region = Region::kInput, .offset = own.offset, .bytes = own.bytes});
    s.receives.push_back({.peer = root});
    return s;
  }
  for (int step = 1; step < size; ++step) {
    const int from = modulo(rank + step, size);
    const Part theirs = parts[static_cast<std::size_t>(from)];
    s.sends.push_back({.peer = from});
    s.receives.push_back(
        {.peer = from, .region = Region::kOutput, .offset = theirs.offset, .bytes = theirs.bytes});
  }
  return s;
}

Schedule scatter_schedule(std::span<const Part> parts, int root, int rank, int size) {
  Schedule s;
  if (rank != root) {
    const Part own = parts[static_cast<std::size_t>(rank)];
    s.sends.push_back({.peer = root});
    s.receives.push_back(
        {.peer = root, .region = Region::kOutput, .offset = own.offset, .bytes = own.bytes});
    return s;
  }
  for (int step = 1; step < size; ++step) {
    const int to = modulo(rank + step, size);
    const Part theirs = parts[static_cast<std::size_t>(to)];
    s.sends.push_back(
        {.peer = to, .region = Region::kInput, .offset = theirs.offset, .bytes = theirs.bytes});
    s.receives.push_back({.peer = to});
  }
  return s;
}

Schedule all_to_all_schedule(std::span<const Part> send, std::span<const Part> receive, int rank,
                             int size) {
  Schedule s;
  for (int step = 1; step < size; ++step) {
    const int to = modulo(rank + step, size);
    const int from = modulo(rank - step, size);
    const Part out = send[static_cast<std::size_t>(to)];
    const Part in = receive[static_cast<std::size_t>(from)];
    s.sends.push_back(
        {.peer = to, .region = Region::kInput, .offset = out.offset, .bytes = out.bytes});
    s.receives.push_back(
        {.peer = from, .region = Region::kOutput, .offset = in.offset, .bytes = in.bytes});
  }
  return s;
}

Schedule all_gather_schedule(std::span<const Part> parts, int rank, int size) {
  const Part own{0, parts[static_cast<std::size_t>(rank)].bytes};
  return all_to_all_schedule(std::vector<Part>(static_cast<std::size_t>(size), own), parts, rank,
                             size);
}

Schedule exchange_shares(std::span<const Part> parts, int rank, int size, Region region,
                         std::size_t to) {
  Schedule s;
  const Part own = parts[static_cast<std::size_t>(rank)];
  Combine combine{.region = region,
                  .offset = to,
                  .bytes = own.bytes,
                  .input_offset = own.offset,
                  .receives = std::vector<int>(static_cast<std::size_t>(size), -1)};
  for (int step = 1; step < size; ++step) {
    const int to_rank = modulo(rank + step, size);
    const int from = modulo(rank - step, size);
    const Part theirs = parts[static_cast<std::size_t>(to_rank)];
    s.sends.push_back({.peer = to_rank,
                       .region = Region::kInput,
                       .offset = theirs.offset,
                       .bytes = theirs.bytes});
    s.receives.push_back(
        {.peer = from, .region = Region::kScratch, .offset = s.scratch_bytes, .bytes = own.bytes});
    s.scratch_bytes += own.bytes;
    combine.receives[static_cast<std::size_t>(from)] = static_cast<int>(s.receives.size()) - 1;
  }
  if (region == Region::kScratch) {
    combine.offset = s.scratch_bytes;
    s.scratch_bytes += own.bytes;
  }
  s.combine = std::move(combine);
  return s;
}

}  // namespace dl::collectives
