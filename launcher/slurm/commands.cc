#include "launcher/slurm/commands.h"

#include <fmt/core.h>

#include <ctime>

#include "core/base/error.h"
#include "launcher/slurm/ask.h"

namespace dl::launcher {
namespace {

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
  try {
    ask_program({"scancel", "--signal=TERM", step});
  } catch (...) {
    // The other nodes give up at their --join-timeout.
  }
}

}  // namespace dl::launcher
