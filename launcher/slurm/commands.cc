#include "launcher/slurm/commands.h"

#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

constexpr int kCancelTurns = 5;
constexpr std::chrono::seconds kCancelPause{1};

std::string_view first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> end_of_slurm_job(const std::string& job) {
  const Answer answer = ask_program({"squeue", "--noheader", "--jobs", job, "--Format", "EndTime"});
  DL_CHECK(answer.status == 0, kNotFound, "squeue does not know when job {} ends: {}", job,
           first_line(answer.text));
  return parse_slurm_time(first_line(answer.text));
}

std::optional<std::chrono::system_clock::time_point> parse_slurm_time(std::string_view text) {
  if (text == "NONE" || text == "N/A" || text == "Unknown") return std::nullopt;
  std::tm parts{};
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  DL_CHECK(end != nullptr && *end == '\0', kParse,
           "squeue names `{}` as the end of the job, wanted a time like 2026-11-22T16:10:11",
           text.substr(0, 80));
  parts.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&parts));
}

void end_slurm_step(const std::string& step) noexcept {
  // SLURM drops a signal for a task that has not begun on its node: ask again, and ignore the
  // signal to this task. A task that begins later still gives up at its --join-timeout.
  ::signal(SIGTERM, SIG_IGN);
  for (int turn = 0; turn < kCancelTurns; ++turn) {
    if (turn > 0) std::this_thread::sleep_for(kCancelPause);
    try {
      ask_program({"scancel", "--signal=TERM", step});
    } catch (...) {
      continue;
    }
  }
}

}  // namespace dl::launcher
