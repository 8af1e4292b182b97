// A rank whose job gets stuck: stuck_probe WHAT [TIMEOUT_S [INIT_METHOD]].
//   loop      all_reduce after all_reduce
//   mismatch  the same, until rank 1 asks for another size
// Rank 0 says "round N" after each of the first rounds.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "collectives/init/init.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  dl::init_process_group({.init_method = argc > 3 ? argv[3] : "env://",
                          .timeout = std::chrono::seconds(argc > 2 ? std::atoi(argv[2]) : 60)});
  std::vector<float> values(250'000);
  for (int round = 1;; ++round) {
    const bool differs = what == "mismatch" && round == 3 && dl::rank() == 1;
    dl::default_group()
        ->all_reduce({.input = values.data(),
                      .output = values.data(),
                      .count = differs ? values.size() - 1 : values.size()})
        ->synchronize();
    if (dl::rank() == 0 && round <= 20) {
      std::printf("round %d\n", round);
      std::fflush(stdout);
    }
  }
}
