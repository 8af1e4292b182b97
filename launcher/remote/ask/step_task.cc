#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "launcher/remote/ask/ask_step.h"
#include "launcher/remote/ask/asked_dlrun.h"
#include "launcher/remote/ask/step_frames.h"

namespace dl::launcher::remote {
namespace {

std::string read_input() {
  std::string text;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "read the questions of a step of srun");
    if (n == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

void write_output(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0) throw_errno(error, "write to standard output");
}

}  // namespace

int answer_in_step() {
  const auto node = env::get(env::Var::kSlurmdNodeName);
  DL_CHECK(node.has_value(), kInvalidArgument, "{} is for tasks of srun that dlrun has started",
           kAnswerWord);
  const StepQuestions step = read_step_questions(read_input());
  std::vector<std::size_t> indices;
  std::vector<AskedDlrun> asked;
  std::vector<AskChild*> children;
  for (std::size_t i = 0; i < step.questions.size(); ++i) {
    if (step.questions[i].host != *node) continue;
    write_output(begin_frame(i));
    indices.push_back(i);
    asked.emplace_back(step.questions[i], std::vector<std::string>());
    children.push_back(asked.back().child());
    children.back()->on_said =
        remarks_in([](const std::string& line) { write_error(line + "\n"); });
  }
  read_answers(children, step.patience, {});
  for (std::size_t i = 0; i < asked.size(); ++i) {
    write_output(answer_frames(indices[i], asked[i].answer(step.patience)));
  }
  return 0;
}

}  // namespace dl::launcher::remote
