// A rank that trains in name only: each step is an all_reduce, then dl::should_checkpoint().
//
//   checkpoint_rank STEPS [FILE | never RANK]
// FILE keeps the step: rank 0 writes it when asked to save, and all go on from it. `never RANK`:
// that rank does not call should_checkpoint(). It says "up" after its first step, and at its end
// "saved at N", or "done at N".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "collectives/init/checkpoint/checkpoint.h"
#include "collectives/init/init.h"

int main(int argc, char** argv) {
  const long steps = std::atol(argv[1]);
  const std::string file = argc == 3 ? argv[2] : "";
  const int never = argc == 4 ? std::atoi(argv[3]) : -1;
  dl::init_process_group();
  long step = 0;
  if (!file.empty()) std::ifstream(file) >> step;
  const long first = step;
  unsigned random = static_cast<unsigned>(::getpid());
  for (; step < steps; ++step) {
    float x = 1;
    dl::default_group()->all_reduce({.input = &x, .output = &x, .count = 1})->wait();
    if (step == first) std::printf("up\n");
    std::fflush(stdout);
    // Ranks are not equally fast.
    if (::rand_r(&random) % 4 == 0) ::usleep(::rand_r(&random) % 500);
    if (dl::rank() != never && dl::should_checkpoint()) {
      std::printf("saved at %ld\n", step + 1);
      if (dl::rank() == 0 && !file.empty()) std::ofstream(file) << step + 1 << "\n";
      dl::destroy_process_group();
      return 0;
    }
  }
  std::printf("done at %ld\n", step);
  dl::destroy_process_group();
  return 0;
}
