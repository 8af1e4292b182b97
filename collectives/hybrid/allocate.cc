// Group's symmetric memory: each node's ranks share a memory of their own, on all nodes or on none.
// The part of an operation inside a node then needs no staging copy (shm/protocol/direct.cc).
#include <algorithm>

#include "collectives/hybrid/group.h"
#include "collectives/shm/group.h"

namespace dl::collectives::hybrid {
namespace {

// What the ranks exchange after each node has made its memory.
struct Made {
  std::uint64_t bytes = 0;
  std::uint64_t is_good = 0;
};

// A rank that is alone on its node has no rank to share with, so ordinary memory will do.
Ref<SymmetricMemory> allocate_on_node(Core& core, std::size_t bytes) {
  auto* const in = dynamic_cast<shm::Group*>(&core.lane(Lane::kIn));
  auto* const out = dynamic_cast<shm::Group*>(&core.lane(Lane::kOut));
  if (in == nullptr || out == nullptr) return make_ordinary_memory(bytes, {});
  Ref<SymmetricMemory> memory = in->allocate_with(*out, bytes);
  core.count_calls(Lane::kIn, in->calls());
  core.count_calls(Lane::kOut, out->calls());
  return memory;
}

}  // namespace

Ref<SymmetricMemory> Group::allocate_symmetric(std::size_t bytes) {
  if (places_.nodes.size() == places_.node_of.size()) {
    return ProcessGroup::allocate_symmetric(bytes);
  }
  tcp::Group& all = core_->pass_on();
  // A lane takes operations in the same order on all ranks, so let those under way finish first.
  for (const Ref<Work>& work : core_->under_way()) work->wait();
  Made own{.bytes = bytes};
  Ref<SymmetricMemory> memory;
  std::string why;
  try {
    memory = allocate_on_node(*core_, bytes);
    own.is_good = 1;
  } catch (const Error& error) {
    core_->throw_if_broken();
    why = error.what();
  }
  std::vector<Made> made(static_cast<std::size_t>(size()));
  all.all_gather({.input = &own, .output = made.data(), .count = sizeof own, .dtype = DType::kU8})
      ->wait();
  for (std::size_t r = 0; r < made.size(); ++r) {
    DL_CHECK(made[r].bytes == bytes, kMismatch,
             "symmetric memory: {} wants {} bytes, {} wants {}; all ranks must make the same calls "
             "in the same order",
             all.identity(static_cast<int>(r)).text(), made[r].bytes, all.identity().text(), bytes);
  }
  DL_CHECK(own.is_good != 0, kIo, "{}", why);
  const auto bad = std::ranges::find(made, std::uint64_t{0}, &Made::is_good);
  DL_CHECK(bad == made.end(), kIo,
           "allocate_symmetric: the node of {} cannot share {} bytes; its ranks' errors say why",
           all.identity(static_cast<int>(bad - made.begin())).text(), bytes);
  return memory;
}

}  // namespace dl::collectives::hybrid
