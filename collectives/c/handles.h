// The handles of the C interface, and the conversion of an exception to a dl_status.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "collectives/api/process_group.h"
#include "collectives/c/dl_comm.h"
#include "core/base/error.h"

struct dl_comm {
  dl::Ref<dl::collectives::ProcessGroup> group;
  std::string backend;
  bool is_world = false;
};
struct dl_work {
  dl::Ref<dl::collectives::Work> work;
};
struct dl_memory {
  dl::Ref<dl::collectives::SymmetricMemory> memory;
};

namespace dl::collectives::c {

// To be called in a catch block. Keeps the text for dl_last_error(). Must not throw: the caller may
// not be C++.
dl_status status_of_exception() noexcept;

template <typename Body>
dl_status guarded(const Body& body) noexcept {
  try {
    body();
    return DL_OK;
  } catch (...) {
    return status_of_exception();
  }
}

inline ProcessGroup& group_of(dl_comm* comm) {
  DL_CHECK(comm != nullptr, kInvalidArgument, "dl_comm: the group is NULL");
  return *comm->group;
}

// Starts an operation, and waits for it if the caller does not take the work.
template <typename Start>
dl_status run(dl_comm* comm, dl_work** work, const Start& start) noexcept {
  return guarded([&] {
    // Allocate before the operation begins: without a dl_work no caller could wait for it.
    auto taken = work != nullptr ? std::make_unique<dl_work>() : nullptr;
    Ref<Work> under_way = start(group_of(comm));
    if (work == nullptr) {
      under_way->wait();
    } else {
      taken->work = std::move(under_way);
      *work = taken.release();
    }
  });
}

// Null for 0: the group's timeout.
std::optional<std::chrono::nanoseconds> time_of(double seconds);

}  // namespace dl::collectives::c
