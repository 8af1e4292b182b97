// The lines in which the tasks of a step of srun answer. srun mixes the output of its tasks, line
// by line, and tears lines of 1024 bytes and more; a prolog may write between them.
//
// Values; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/remote/ask/ask_hosts.h"

namespace dl::launcher::remote {

// What every task of a step reads on its standard input.
struct StepQuestions {
  std::chrono::seconds patience{20};
  std::vector<HostQuestion> questions;
};
std::string text_of(const StepQuestions& questions);
// Throws kParse with a sentence.
StepQuestions read_step_questions(std::string_view text);

// Lines for question `index`: that its task has begun, and what it answers.
std::string begin_frame(std::size_t index);
std::string answer_frames(std::size_t index, const HostAnswer& answer);

// One question, as far as its frames have come.
struct FramedAnswer {
  bool has_begun = false;
  bool has_ended = false;
  std::string text;
  int exit_code = 0;
  std::string error;
};

// Takes the whole lines from the front of `text`: frames, and others, which it drops. Calls
// `on_end` with the index of each question whose answer is complete.
void take_frames(std::string& text, std::vector<FramedAnswer>& answers,
                 const std::function<void(std::size_t index)>& on_end);

}  // namespace dl::launcher::remote
