// Measures what two ranks get, by a job of dlbench, next to what such a link gives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/checks/check.h"

namespace dl::launcher::doctor {

struct Measured {
  std::string error;      // the job failed: how, and what it said last; empty: it ended well
  double latency_us = 0;  // of 8 bytes, there or back
  double gb_per_s = 0;    // of 8 MiB, in each direction at once
};

// How a job of two ranks is started.
struct TwoRanks {
  std::vector<std::string> before = {};       // words of a program that starts dlrun; empty: none
  std::vector<std::string> environment = {};  // NAME=VALUE, of that program; empty: this process's
  std::vector<std::string> options;           // of dlrun
};
// To be called before any thread exists.
Measured measure(const TwoRanks& ranks);
// What dlbench and dlrun have said. `exit_code`: of dlrun.
Measured read_measured(std::string_view text, int exit_code);

// Two ranks of this host.
Check check_one_host(const Measured& measured);
// A rank on each of two hosts.
Check check_two_hosts(const std::string& a, const std::string& b, const Measured& measured);

}  // namespace dl::launcher::doctor
