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

// `options`: those of dlrun, which give two ranks. To be called before any thread exists.
Measured measure(const std::vector<std::string>& options);
// What dlbench and dlrun have said. `exit_code`: of dlrun.
Measured read_measured(std::string_view text, int exit_code);

// Two ranks of this host.
Check check_one_host(const Measured& measured);
// A rank on each of two hosts.
Check check_two_hosts(const std::string& a, const std::string& b, const Measured& measured);

}  // namespace dl::launcher::doctor
