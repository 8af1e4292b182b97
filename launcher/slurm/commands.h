// Calls of the cluster's own programs, most of them SLURM's. To be called before any thread exists,
// or at the very end.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/ask/ask.h"

namespace dl::launcher {

// Runs one of the cluster's own programs (squeue, scontrol, munge), found along PATH, and waits for
// its end. `input`: the program's standard input, at most 4 KiB. Throws Error{kNotFound, kTimeout,
// kIo} with a sentence.
Answer ask_program(std::vector<std::string> line, const std::string& input = "");

// The time at which the job ends, as `squeue` reports it (SLURM before 23.02 sets no variable).
// nullopt: it has no limit. Throws Error{kNotFound, kTimeout, kParse} with a sentence.
std::optional<std::chrono::system_clock::time_point> end_of_slurm_job(const std::string& job);

// Parses "2026-11-22T16:10:11", local time; "NONE", "N/A" and "Unknown" are nullopt. Throws kParse.
std::optional<std::chrono::system_clock::time_point> parse_slurm_time(std::string_view text);

// Sends SIGTERM to every task of a step, "4711.0": otherwise the other tasks wait for a task that
// could not take part. Takes some seconds, as a signal may be lost, and ignores SIGTERM from then
// on. Errors are ignored.
void end_slurm_step(const std::string& step) noexcept;

}  // namespace dl::launcher
