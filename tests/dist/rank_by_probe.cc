// A rank that calls collectives over data that reveals a rank in a wrong place, and prints its
// node.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectives/init/init.h"

namespace {

constexpr std::size_t kCount = 1 << 16;  // more than a small operation, which takes another route

bool sums_are_right(int rank, int ranks) {
  const auto group = dl::default_group();
  std::vector<float> sum(kCount, static_cast<float>(rank + 1));
  group->all_reduce({.input = sum.data(), .output = sum.data(), .count = kCount})->wait();
  const auto all = static_cast<std::size_t>(ranks);
  bool right = sum == std::vector<float>(kCount, static_cast<float>(ranks * (ranks + 1) / 2));

  const std::vector<float> own(kCount, static_cast<float>(rank));
  std::vector<float> gathered(kCount * all), wanted;
  group->all_gather({.input = own.data(), .output = gathered.data(), .count = kCount})->wait();
  for (int r = 0; r < ranks; ++r) wanted.insert(wanted.end(), kCount, static_cast<float>(r));
  right = right && gathered == wanted;

  std::vector<float> share(kCount);
  group->reduce_scatter({.input = wanted.data(), .output = share.data(), .count = kCount})->wait();
  right = right && share == std::vector<float>(kCount, static_cast<float>(rank * ranks));

  std::vector<float> told(kCount, static_cast<float>(rank));
  group->broadcast({.buffer = told.data(), .count = kCount, .root = ranks - 1})->wait();
  return right && told == std::vector<float>(kCount, static_cast<float>(ranks - 1));
}

}  // namespace

int main() {
  dl::init_process_group();
  const int rank = dl::rank();
  const bool right = sums_are_right(rank, dl::world_size());
  // One write a line, so that the lines of a node's ranks do not mix.
  fmt::print("local {} of node {}, {}: {}\n", std::getenv("LOCAL_RANK"), std::getenv("GROUP_RANK"),
             dl::default_group()->backend(), right ? "right" : "wrong");
  std::fflush(stdout);
  dl::destroy_process_group();
  return right ? 0 : 1;
}
