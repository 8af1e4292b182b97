// Case: the contents of the flight recorders of a job's ranks, side by side.
//
// Files may be cut, damaged, of another run, or hostile. Each file is read up to a fixed size. A
// file that cannot be used is listed with the reason.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "collectives/record/snapshot.h"

namespace dl::launcher::autopsy {

struct Unusable {
  std::string what;
  std::string why;
};

struct Case {
  std::vector<collectives::record::RankFacts> ranks;  // by rank
  std::vector<Unusable> unusable;

  // Adds one recorder. `what` names it in the list of unusable files.
  void add(std::span<const std::byte> bytes, const std::string& what);
  // Adds a --log-dir (its last run), one run in it, a folder with <rank>/flight.rec, or one such
  // file.
  void add_path(const std::string& path);

  int world_size() const noexcept { return ranks.empty() ? 0 : ranks.front().world_size; }
  const collectives::record::RankFacts* find(int rank) const noexcept;
  // Ranks of the world whose recorders were not read: they are on another node.
  std::vector<int> absent() const;
};

}  // namespace dl::launcher::autopsy
