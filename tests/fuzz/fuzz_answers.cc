// What other hosts answer to `dlrun topo`, and the lines in which tasks of srun answer: every text
// is read or refused, and what is written of a map that was read is a map.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "launcher/remote/ask/step_frames.h"
#include "launcher/topo/topo.h"

namespace {

using namespace dl;
using namespace dl::launcher;

void read_map(std::string_view text) {
  const topo::HostMap map = topo::read_map(text);
  try {
    topo::read_map(topo::json(map));
  } catch (const Error&) {
    std::abort();
  }
  for (const auto& lines : {topo::page(map), topo::matrix(map)}) {
    for (const std::string& line : lines) {
      if (line.find('\n') != std::string::npos) std::abort();
    }
  }
  if (topo::picture({map}).empty()) std::abort();
}

void read_frames(std::string text) {
  std::vector<remote::FramedAnswer> answers(3);
  remote::take_frames(text, answers, [&](std::size_t index) {
    if (!answers.at(index).has_ended) std::abort();
  });
  if (text.find('\n') != std::string::npos) std::abort();
}

void read_questions(std::string_view text) {
  const remote::StepQuestions read = remote::read_step_questions(text);
  const std::string written = remote::text_of(read);
  if (remote::text_of(remote::read_step_questions(written)) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_frames(std::string(text));
  for (const auto read : {&read_map, &read_questions}) {
    try {
      read(text);
    } catch (const Error&) {
    }
  }
  return 0;
}
