// on_failure_probe DEAD exit|kill [save|renewed|absent]: the rank DEAD ends in the middle of the
// job. Each other rank learns of it by an error of its collective, and re-forms the group. With
// `save` it then works until it is asked to save. With `renewed` all ranks make the group anew
// before. With `absent` the last rank does not re-form it, and the others give up.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "collectives/init/checkpoint/checkpoint.h"
#include "collectives/init/init.h"
#include "core/base/error.h"

namespace {

// One write a line, so that the lines of ranks that share a pipe do not mix.
void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

float sum_of_ones() {
  float sum = 1;
  dl::default_group()->all_reduce({.input = &sum, .output = &sum, .count = 1})->wait();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const int dead = std::atoi(argv[1]);
  const bool is_killed = std::string(argv[2]) == "kill";
  dl::init_process_group();
  const std::string how = argc > 3 ? argv[3] : "";
  if (how == "renewed") dl::reform(dl::default_group());
  const bool dies = dl::rank() == dead;
  sum_of_ones();
  if (dies && is_killed) ::raise(SIGKILL);
  if (dies) ::_exit(3);
  try {
    for (;;) sum_of_ones();
  } catch (const dl::Error& error) {
    say(fmt::format("heard: {}", error.what()));
  }
  if (how == "absent") {
    if (dl::rank() == dl::world_size() - 1) ::pause();
    try {
      dl::reform(dl::default_group(), std::chrono::seconds(1));
    } catch (const dl::Error&) {
      ::_exit(4);
    }
  }
  dl::reform(dl::default_group());
  say(fmt::format("goes on as {} of {}: sum {}", dl::rank(), dl::world_size(), sum_of_ones()));
  while (how == "save") {
    if (dl::should_checkpoint()) {
      say("saved");
      break;
    }
    sum_of_ones();
  }
  dl::destroy_process_group();
  return 0;
}
