// Records: the Ledger of a group, with the recorder's numbers for the paths of collectives.
//
// Owned by the Core. Any thread, as ledger.h says.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "collectives/shm/driver/operation.h"
#include "collectives/waiting/pending/ledger.h"

namespace dl::collectives::shm {

class Records : public Ledger {
 public:
  Records(const std::shared_ptr<record::Recorder>& recorder,
          const record::Recorder::GroupOptions& group)
      : Ledger(recorder, group) {
    if (!recorder) return;
    for (const Path path : {Path::kInline, Path::kExchange, Path::kChunks, Path::kDirect}) {
      paths_[static_cast<std::size_t>(path)] = recorder->algorithm(name_of(path));
    }
  }

  // The recorder's number for the path of an operation that begins.
  std::uint8_t first_path(const Operation& op) const noexcept {
    // On symmetric memory the ranks still have to agree on the path.
    return op.memory ? std::uint8_t{0} : path(op);
  }
  std::uint8_t path(const Operation& op) const noexcept {
    return paths_[static_cast<std::size_t>(op.transfer.plan.path)];
  }

 private:
  std::array<std::uint8_t, kPathCount> paths_{};
};

}  // namespace dl::collectives::shm
