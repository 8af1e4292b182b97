// MemoryMaking: how the ranks of a group make a symmetric memory, all of them or none.
//
// Made and used by one thread, within one call of allocate_symmetric() or register_symmetric().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/api/process_group.h"
#include "collectives/call/descriptor.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives {

class MemoryMaking {
 public:
  struct Wish {
    std::int32_t call = kForAllocate;  // or kForRegister
    std::size_t bytes = 0;
    std::uint32_t number = 0;  // of the calls that make memory, if the backend counts them
  };

  // `group`: that exchanges what the ranks say.
  MemoryMaking(ProcessGroup& group, const Wish& wish) : group_(group), wish_(wish) {}

  // Runs `steps`, and tells this rank's agent if another rank is to blame for their failure.
  template <typename Steps>
  auto run(const Steps& steps) {
    return tell_failure(called(), group_.rank_in_job(), steps);
  }

  // Collective: runs this rank's step, then meets the other ranks. Returns what failed on any rank,
  // or an empty string. Throws kMismatch if the ranks wish for different things, and the errors of
  // all_gather().
  template <typename Step>
  std::string together(const Step& step) {
    std::string why;
    bool is_good = false;
    try {
      step();
      is_good = true;
    } catch (const Error& error) {
      why = error.what();
    }
    const std::string of_others = meet(is_good);
    return is_good ? of_others : why;
  }

 private:
  Called called() const;
  std::string meet(bool is_good);

  ProcessGroup& group_;
  const Wish wish_;
};

}  // namespace dl::collectives
