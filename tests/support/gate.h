// A gate that holds up the shell scripts of a test's ranks until the test, or one of them, opens
// it.
#pragma once

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace dl::tests {

class Gate {
 public:
  // For a script: goes on once the gate is open; opens it.
  std::string wait() const { return "while ! test -e " + file() + "; do sleep 0.01; done; "; }
  std::string opener() const { return ": > " + file() + "; "; }

  void open() const { std::ofstream{file()}; }

 private:
  std::string file() const { return folder_.path() + "/open"; }

  TempDir folder_;
};

}  // namespace dl::tests
