#include "collectives/algorithms/parts.h"

#include "collectives/algorithms/chunks.h"

namespace dl::collectives {
namespace {

std::vector<Part> pack_all(const PartsView& parts, int size, std::size_t element) {
  if (!parts.counts().empty()) return pack(parts.counts(), element);
  return pack(std::vector<std::size_t>(static_cast<std::size_t>(size), parts.count()), element);
}

// On the root the parts of all ranks, which it alone knows; elsewhere this rank's own part.
std::vector<Part> rooted_parts(const Call& call, const PartsView& all, std::size_t own, int rank,
                               int size) {
  const std::size_t element = size_of(call.what.dtype);
  if (rank == call.what.root) return pack_all(all, size, element);
  std::vector<Part> parts(static_cast<std::size_t>(size));
  parts[static_cast<std::size_t>(rank)] = {0, own * element};
  return parts;
}

}  // namespace

bool has_parts_schedule(OpKind op) noexcept {
  const OpRow& row = row_of(op);
  const bool is_rooted = row.root != Root::kNone && row.input != row.output;
  return row.is_v_variant() || is_rooted || op == OpKind::kAllToAll;
}

Schedule parts_schedule(const Call& call, int rank, int size) {
  const std::size_t element = size_of(call.what.dtype);
  switch (call.row().fixed_count) {
    case OpKind::kGather:
      return gather_schedule(rooted_parts(call, call.takes, call.gives.count(), rank, size),
                             call.what.root, rank, size);
    case OpKind::kScatter:
      return scatter_schedule(rooted_parts(call, call.gives, call.takes.count(), rank, size),
                              call.what.root, rank, size);
    case OpKind::kAllToAll:
      return all_to_all_schedule(pack_all(call.gives, size, element),
                                 pack_all(call.takes, size, element), rank, size);
    case OpKind::kAllGather:
      return all_gather_schedule(pack_all(call.takes, size, element), rank, size);
    default:
      return exchange_shares(pack_all(call.gives, size, element), rank, size, Region::kOutput, 0);
  }
}

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
  s.sends.reserve(2 * parts.size());  // room for the transfers of the result
  s.receives.reserve(2 * parts.size());
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
