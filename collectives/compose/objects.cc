#include "collectives/compose/objects.h"

#include <cstdint>
#include <numeric>

#include "collectives/api/purpose.h"
#include "collectives/compose/split_plan.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

static_assert(sizeof(std::size_t) == sizeof(std::uint64_t), "lengths travel as u64");

using Lengths = std::vector<std::size_t>;

std::size_t sum(const Lengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

std::vector<std::string> cut(std::string_view all, const Lengths& lengths) {
  std::vector<std::string> parts;
  parts.reserve(lengths.size());
  for (const std::size_t length : lengths) {
    parts.emplace_back(all.substr(0, length));
    all.remove_prefix(length);
  }
  return parts;
}

}  // namespace

std::vector<std::string> all_gather_bytes(ProcessGroup& group, std::string_view bytes,
                                          const CallOptions& call) {
  return all_gather_bytes_for(kForProgram, group, bytes, call);
}

std::vector<std::string> all_gather_bytes_for(std::int32_t purpose, ProcessGroup& group,
                                              std::string_view bytes, const CallOptions& call) {
  Lengths lengths(static_cast<std::size_t>(group.size()));
  const std::size_t length = bytes.size();
  const AllGatherOptions of_lengths{
      .input = &length, .output = lengths.data(), .count = 1, .dtype = DType::kU64, .call = call};
  start_for(purpose, group, of_lengths)->synchronize();
  std::string all(sum(lengths), '\0');
  const AllGathervOptions of_bytes{.input = bytes.data(),
                                   .output = all.data(),
                                   .counts = lengths,
                                   .dtype = DType::kU8,
                                   .call = call};
  start_for(purpose, group, of_bytes)->synchronize();
  return cut(all, lengths);
}

std::vector<std::string> gather_bytes(ProcessGroup& group, std::string_view bytes, int root,
                                      const CallOptions& call) {
  const bool is_root = group.rank() == root;
  Lengths lengths(is_root ? static_cast<std::size_t>(group.size()) : 0);
  const std::size_t length = bytes.size();
  const GatherOptions of_lengths{.input = &length,
                                 .output = lengths.data(),
                                 .count = 1,
                                 .dtype = DType::kU64,
                                 .root = root,
                                 .call = call};
  group.gather(of_lengths)->synchronize();
  std::string all(sum(lengths), '\0');
  const GathervOptions of_bytes{.input = bytes.data(),
                                .count = length,
                                .output = all.data(),
                                .counts = lengths,
                                .dtype = DType::kU8,
                                .root = root,
                                .call = call};
  group.gatherv(of_bytes)->synchronize();
  return cut(all, lengths);
}

std::string broadcast_bytes(ProcessGroup& group, std::string_view bytes, int root,
                            const CallOptions& call) {
  std::size_t length = bytes.size();
  const BroadcastOptions of_length{
      .buffer = &length, .count = 1, .dtype = DType::kU64, .root = root, .call = call};
  group.broadcast(of_length)->synchronize();
  std::string whole = group.rank() == root ? std::string(bytes) : std::string(length, '\0');
  const BroadcastOptions of_bytes{
      .buffer = whole.data(), .count = length, .dtype = DType::kU8, .root = root, .call = call};
  group.broadcast(of_bytes)->synchronize();
  return whole;
}

std::string scatter_bytes(ProcessGroup& group, const std::vector<std::string>& parts, int root,
                          const CallOptions& call) {
  Lengths lengths;
  std::string all;
  if (group.rank() == root) {
    DL_CHECK(parts.size() == static_cast<std::size_t>(group.size()), kInvalidArgument,
             "scatter_bytes: there are {} parts, wanted one for each of {} ranks", parts.size(),
             group.size());
    for (const std::string& part : parts) {
      lengths.push_back(part.size());
      all += part;
    }
  }
  std::size_t length = 0;
  const ScatterOptions of_lengths{.input = lengths.data(),
                                  .output = &length,
                                  .count = 1,
                                  .dtype = DType::kU64,
                                  .root = root,
                                  .call = call};
  group.scatter(of_lengths)->synchronize();
  std::string own(length, '\0');
  const ScattervOptions of_bytes{.input = all.data(),
                                 .counts = lengths,
                                 .output = own.data(),
                                 .count = length,
                                 .dtype = DType::kU8,
                                 .root = root,
                                 .call = call};
  group.scatterv(of_bytes)->synchronize();
  return own;
}

void monitored_barrier(ProcessGroup& group, std::chrono::nanoseconds timeout) {
  group.barrier({.call = {.timeout = timeout}})->synchronize();
}

}  // namespace dl::collectives
