// HeldPlace: this process holds a rank's place in its job. A process that a rank starts (a worker
// that Python's multiprocessing spawns) has the rank's environment, and would be the same rank a
// second time.
//
// It is a listener with an abstract name (unix(7)), which the kernel ends with the process. A
// program that init was called in and has ended, as in `sh -c "a; b"`, holds nothing. One thread at
// a time.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/system/unique_fd.h"

namespace dl::collectives {

class HeldPlace {
 public:
  HeldPlace() noexcept = default;
  // `place`: the same text in all processes that would be this rank, and in no other of this host.
  // If the name cannot be had, for example because another user has it, this holds nothing.
  explicit HeldPlace(std::string_view place);
  HeldPlace(HeldPlace&&) noexcept = default;
  HeldPlace& operator=(HeldPlace&&) noexcept = default;
  HeldPlace(const HeldPlace&) = delete;
  HeldPlace& operator=(const HeldPlace&) = delete;
  // Frees the place, even if children that this process has forked keep the socket open.
  ~HeldPlace();

  // The living process that has the place instead of this one.
  std::optional<int> holder() const noexcept { return holder_; }

 private:
  UniqueFd listener_{};
  std::optional<int> holder_{};
};

}  // namespace dl::collectives
