// What every ProcessGroup promises of its values, messages and works. The same tests run over all
// backends: as threads of one process (backends.cc), and under mpirun
// (tests/dist/mpi_conformance.cc).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "collectives/api/process_group.h"

namespace dl::collectives::testing {

// Runs `body` once on each rank of a group of `size` ranks. If ranks are processes, each
// runs it for its own rank.
using RunRanks = void (*)(int size, const std::function<void(ProcessGroup& group)>& body);

struct Backend {
  std::string name;
  RunRanks run;
  bool are_ranks_threads = true;   // of this process
  bool collectives_return = true;  // before the other ranks have called them
};

struct SizedBackend {
  Backend backend;
  int size;
};

inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}
inline void PrintTo(const SizedBackend& sized, std::ostream* out) {
  *out << sized.backend.name << " of " << sized.size;
}

// For groups of every size.
class Conformance : public ::testing::TestWithParam<SizedBackend> {
 protected:
  static void run(const std::function<void(ProcessGroup& group)>& body) {
    GetParam().backend.run(GetParam().size, body);
  }
  static int size() { return GetParam().size; }
};

// For groups of a size that the test chooses.
class MessageConformance : public ::testing::TestWithParam<Backend> {
 protected:
  static void run(int size, const std::function<void(ProcessGroup& group)>& body) {
    GetParam().run(size, body);
  }
};

}  // namespace dl::collectives::testing
