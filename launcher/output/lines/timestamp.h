// The time that --timestamp-output writes before each line.
#pragma once

#include <chrono>
#include <string>

namespace dl::launcher {

// "2026-01-31 23:59:59.123 ", local time.
std::string timestamp(std::chrono::system_clock::time_point time);

}  // namespace dl::launcher
