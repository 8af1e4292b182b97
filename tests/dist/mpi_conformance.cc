// The conformance tests on the ranks of an MPI's world: each rank is a process, which runs all
// tests.
//   mpirun -n 3 mpi_conformance
#include <gtest/gtest.h>

#include <string>

#include "collectives/init/init.h"
#include "tests/collectives/conformance/conformance.h"

namespace dl::collectives::testing {
namespace {

constexpr int kWorld = 3;

// The ranks above `size` wait for the others.
void run(int size, const std::function<void(ProcessGroup& group)>& body) {
  const Ref<ProcessGroup> world = default_group();
  const Ref<ProcessGroup> group = world->split({.color = world->rank() < size ? 0 : kNoColor});
  if (group) body(*group);
  world->barrier()->wait();
}

const Backend kMpi{.name = "mpi", .run = run, .are_ranks_threads = false};

constexpr auto kRanks = [](const ::testing::TestParamInfo<SizedBackend>& sized) {
  return std::to_string(sized.param.size);
};

INSTANTIATE_TEST_SUITE_P(mpi, Conformance,
                         ::testing::Values(SizedBackend{kMpi, 2}, SizedBackend{kMpi, kWorld}),
                         kRanks);
INSTANTIATE_TEST_SUITE_P(mpi, MessageConformance, ::testing::Values(kMpi));

int run_tests() {
  init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(100)});
  const int failed = default_group()->size() == kWorld ? RUN_ALL_TESTS() : 1;
  destroy_process_group();
  return failed;
}

}  // namespace
}  // namespace dl::collectives::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return dl::collectives::testing::run_tests();
}
