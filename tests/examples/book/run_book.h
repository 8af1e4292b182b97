// Runs the book's program, on one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dl::tests {

inline std::string out_of(const std::vector<std::string>& argv) {
  Process process(argv, {.environment = {"OMP_NUM_THREADS=1"}});
  EXPECT_EQ(process.wait(), 0) << process.err();
  return process.out();
}

inline std::string out_of_book(std::vector<std::string> words) {
  words.insert(words.begin(), program("book"));
  return out_of(words);
}

}  // namespace dl::tests
