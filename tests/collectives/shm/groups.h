// Groups over shared memory for tests, and what of them this process holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectives/ranks.h"

namespace dl::collectives::testing {

inline Ref<ProcessGroup> join(rendezvous::Store& store, int rank, GroupOptions options) {
  options.rank = rank;
  options.store = &store;
  if (options.size == 1) options.size = 2;
  options.connect_timeout = 20s;
  return make_shm_group(options);
}

// Open descriptors and mapped segments of this process.
inline std::pair<std::ptrdiff_t, int> held() {
  const auto descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  int segments = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    segments += line.find("dlrun-shm") != std::string::npos ? 1 : 0;
  }
  return {descriptors, segments};
}

inline void sum_once(ProcessGroup& group, std::size_t count) {
  std::vector<float> x(count, 1.0f);
  std::vector<float> y(count);
  group
      .sendrecv({.buffer = x.data(), .count = count, .peer = (group.rank() + 1) % group.size()},
                {.buffer = y.data(), .count = count, .peer = kAnySource})
      ->wait();
  EXPECT_EQ(x, y);
  group.all_reduce({.input = x.data(), .output = x.data(), .count = count})->wait();
  EXPECT_EQ(x.back(), static_cast<float>(group.size()));
}

}  // namespace dl::collectives::testing
