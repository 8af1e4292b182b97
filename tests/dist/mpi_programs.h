// Programs written with an MPI, which the build makes if the MPI is there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/program.h"

// Without the file the test is skipped; a run of CI that cannot run it fails.
#define DL_NEED_PROGRAM(path, package)                               \
  do {                                                               \
    if (::access((path).c_str(), X_OK) == 0) break;                  \
    const std::string why = "dlrun was configured without " package; \
    if (std::getenv("DLRUN_TEST_ALL") != nullptr) FAIL() << why;     \
    GTEST_SKIP() << why;                                             \
  } while (false)

namespace dl::tests {

// "mpi_sum" of "mpich"
inline std::string mpi_program(const std::string& name, const std::string& mpi) {
  return program("../tests/" + name + "_" + mpi);
}

}  // namespace dl::tests
