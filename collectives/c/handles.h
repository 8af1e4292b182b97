// The handles of the C interface, and the conversion of an exception to a dl_status.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/c/device_memory.h"
#include "collectives/c/dl_comm.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/unique_fd.h"

struct dl_comm {
  // `part`: null if this rank joins none.
  void set(dl::Ref<dl::collectives::ProcessGroup> part) {
    if (!part) return;
    backend = part->backend();
    name = part->name();
    plan = part->plan();
    ask = dl::collectives::c::find_pointer_question();
    group = std::move(part);
  }

  dl::Ref<dl::collectives::ProcessGroup> group{};
  std::string backend{}, name{}, plan{};  // end with a zero byte
  bool is_world = false;
  dl::collectives::c::PointerQuestion ask = nullptr;  // null: no buffer can be a GPU's
};

namespace dl::collectives::c {

// Makes its descriptor readable.
class EventAlarm final : public Alarm {
 public:
  EventAlarm();
  int fd() const noexcept { return fd_.get(); }
  void ring() noexcept override;

 private:
  UniqueFd fd_;
};

}  // namespace dl::collectives::c

struct dl_work {
  dl::Ref<dl::collectives::Work> work;
  dl::Mutex mutex{};
  dl::Ref<dl::collectives::c::EventAlarm> alarm DL_GUARDED_BY(mutex);  // null: not asked for
};
struct dl_memory {
  dl::Ref<dl::collectives::SymmetricMemory> memory;
};
struct dl_bytes {
  std::vector<std::string> strings;
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

// Refuses a GPU's memory. Without a driver it costs a comparison.
inline void check_buffers(const dl_comm& comm, const void* input, const void* output) {
  if (comm.ask != nullptr) [[unlikely]]
    refuse_device_memory(comm.ask, input, output);
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

// Throw kInvalidArgument for other numbers.
DType dtype_of(dl_dtype dtype);
ReduceOp op_of(dl_reduce_op op);
// Throws kInvalidArgument, naming the call, if the options do not begin with DL_COMM_OPTIONS_INIT.
void check_options_begin(const dl_comm_options* options, std::string_view call);
// Null for 0: the group's timeout.
std::optional<std::chrono::nanoseconds> time_of(double seconds);

}  // namespace dl::collectives::c
