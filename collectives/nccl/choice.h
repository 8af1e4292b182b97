// Choice: whether memory of GPUs travels over NCCL or through the host. Every rank says what it
// has, all read what all have said, and decide alike.
#pragma once

#include <span>
#include <string>

#include "collectives/nccl/module.h"

namespace dl::collectives::nccl {

// What one rank says.
struct Offer {
  std::string gpu{};    // UUID of the device whose memory it calls with
  int version = 0;      // of NCCL, 22809 for 2.28.9; 0: none
  bool shares = false;  // DLRUN_NCCL_SHARED_GPU
  std::string lacks{};  // why there is no NCCL

  std::string text() const;  // one line
  static Offer parse(const std::string& text);
};

struct Decision {
  std::string obstacle{};  // why not NCCL; empty: over NCCL
  bool is_shared = false;  // ranks are ready for several on one GPU, here or in another group
};

// A pure function of what all ranks have said, by rank. Throws kMismatch for different NCCLs.
Decision decide(std::span<const Offer> offers);

// The module, opened at the first call. Throws kNotFound where it or NCCL is not there or too old.
const Module& open_module();

// Before the first call of NCCL, which reads its environment once: what lets several ranks use one
// GPU, unless the user has set it.
void prepare_sharing(int version);

}  // namespace dl::collectives::nccl
