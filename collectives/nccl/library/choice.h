// Choice: whether GPU memory goes over NCCL or through the host. Every rank publishes an Offer; all
// ranks read all offers and reach the same decision.
#pragma once

#include <span>
#include <string>

#include "collectives/nccl/library/module.h"

namespace dl::collectives::nccl {

// What one rank offers.
struct Offer {
  std::string gpu{};    // UUID of the GPU whose memory it gives to the group
  int version = 0;      // of NCCL, 22809 for 2.28.9; 0: none
  bool shares = false;  // DLRUN_NCCL_SHARED_GPU: may share a GPU with other ranks over NCCL
  std::string lacks{};  // why there is no NCCL

  std::string text() const;  // one line
  static Offer parse(const std::string& text);
};

struct Decision {
  std::string obstacle{};  // why NCCL is not used; empty: it is used
  bool is_shared = false;  // ranks expect to share a GPU, in this group or another
};

// A pure function of all ranks' offers, by rank. Throws kMismatch if NCCL's versions differ.
Decision decide(std::span<const Offer> offers);

// The module, opened at the first call. Throws kNotFound if the module or NCCL is missing, or NCCL
// is too old.
const Module& open_module();

// To be called before the first call of NCCL, which reads its environment once: sets the variables
// that let several ranks use one GPU, unless the user has set them.
void prepare_sharing(int version);

}  // namespace dl::collectives::nccl
