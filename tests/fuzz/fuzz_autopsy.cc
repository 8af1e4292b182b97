// Flight recorders, damaged at will: any bytes give a page of plain lines and JSON.
//
// The input is a list of patches to three good recorders: rank, offset (3 bytes), length, bytes;
// and as a whole it is a file of its own too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/record/recorder.h"
#include "collectives/record/snapshot.h"
#include "launcher/autopsy/autopsy.h"

namespace {

using namespace dl::collectives::record;
namespace autopsy = dl::launcher::autopsy;

constexpr int kRanks = 3;

std::unique_ptr<Memory> good_recorder(int rank) {
  constexpr std::string_view kOps[] = {"all_reduce", "broadcast", "send", "recv", "barrier"};
  constexpr std::string_view kDTypes[] = {"f32", "f64"};
  constexpr std::string_view kReduces[] = {"sum", "max"};
  const auto recorder =
      Recorder::make({.rank = rank, .world_size = kRanks, .host = "box", .job = "j"},
                     {.ops = kOps, .dtypes = kDTypes, .reduces = kReduces}, {});
  GroupRecorder world = recorder->add_group({.name = "world", .rank = rank, .size = kRanks});
  GroupRecorder pair = recorder->add_group({.name = "pair", .rank = rank % 2, .size = 2});
  for (std::uint64_t i = 1; i <= 5; ++i) {
    world.finish(world.begin({.sequence = i, .count = 8, .hash = 7}, recorder->algorithm("ring")));
  }
  world.wait_for(world.begin({.sequence = 6, .count = 8}), (rank + 1) % kRanks);
  pair.begin({.sequence = 1, .count = 2, .root = 5, .op = 3, .is_message = true, .peer = 1});
  world.broken("timeout", "waiting for rank 1");
  return take_snapshot(recorder->memory());
}

void check(const autopsy::Case& found) {
  for (const std::string& line : autopsy::page(found)) {
    for (const char c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) __builtin_trap();
    }
  }
  if (autopsy::json(found).empty()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto good = [] {
    std::vector<std::vector<std::byte>> files;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto copy = good_recorder(rank);
      const auto bytes = std::as_bytes(std::span(copy.get(), 1));
      files.emplace_back(bytes.begin(), bytes.end());
    }
    return files;
  }();
  autopsy::Case whole;
  const auto bytes = std::as_bytes(std::span(data, size));
  whole.add(bytes.first(std::min(bytes.size(), kBytes)), "fuzz");
  check(whole);

  auto files = good;
  for (std::size_t at = 0; at + 5 <= size;) {
    std::vector<std::byte>& file = files[data[at] % kRanks];
    const std::size_t offset = (data[at + 1] | data[at + 2] << 8 | data[at + 3] << 16) % kBytes;
    const std::size_t length = data[at + 4];
    at += 5;
    if (length == 0) file.resize(std::min(file.size(), offset));  // a cut file
    const std::size_t there = file.size() - std::min(file.size(), offset);
    const std::size_t count = std::min({length, size - at, there});
    if (count > 0) std::memcpy(file.data() + offset, data + at, count);
    at += std::min(length, size - at);
  }
  autopsy::Case patched;
  for (const auto& file : files) patched.add(file, "fuzz");
  check(patched);
  return 0;
}
