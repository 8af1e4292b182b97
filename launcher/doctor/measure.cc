#include "launcher/doctor/measure.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "launcher/process/ask/ask.h"
#include "launcher/process/own_process.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::chrono::seconds kPatienceWithJob{60};

// Below these, something slows the ranks down. A link of 1 Gb/s gives 0.12 GB/s.
constexpr double kSlowHere_us = 200;
constexpr double kSlowHere_gb = 0.5;
constexpr double kSlowBetween_us = 500;
constexpr double kSlowBetween_gb = 0.1;

Check check(const std::string& name, const Measured& measured, double slow_us, double slow_gb,
            const std::string& usual, const std::string& mend) {
  if (!measured.error.empty()) {
    return judged(name, measured.error,
                  {{true, Verdict::kWrong, "a job of two ranks does not run here", mend}});
  }
  return judged(name,
                fmt::format("8 bytes in {:.1f} us, 8 MiB at {:.3g} GB/s", measured.latency_us,
                            measured.gb_per_s),
                {{measured.latency_us > slow_us || measured.gb_per_s < slow_gb, Verdict::kWarn,
                  usual, mend}});
}

}  // namespace

Measured measure(const TwoRanks& ranks) {
  std::vector<std::string> line = ranks.before;
  line.push_back(own_file().string());
  line.insert(line.end(), ranks.options.begin(), ranks.options.end());
  line.insert(line.end(), {"--no-prefix", (own_file().parent_path() / "dlbench").string(),
                           "sendrecv", "-b", "8", "-e", "8M", "-f", "1048576", "--json"});
  try {
    const Answer answer =
        ask(line, {.environment = ranks.environment, .patience = kPatienceWithJob});
    return read_measured(answer.text, shell_exit_code(answer.status));
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

Measured read_measured(std::string_view text, int exit_code) {
  Measured measured{.error = {}};
  std::string last;
  int rows = 0;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto row =
        nlohmann::ordered_json::parse(std::string_view(line), nullptr, /*allow_exceptions=*/false);
    const bool is_row = row.is_object() && row.contains("bytes") && row["bytes"].is_number() &&
                        row.contains("p50_us") && row["p50_us"].is_number() &&
                        row.contains("busbw") && row["busbw"].is_number();
    if (!is_row) {
      if (!line.empty()) last = line;
      continue;
    }
    ++rows;
    if (row["bytes"] == 8) {
      measured.latency_us = row["p50_us"];
    } else {
      measured.gb_per_s = row["busbw"];
    }
  }
  if (exit_code != 0 || rows != 2) {
    measured.error = fmt::format("dlbench ended with exit code {}: {}", exit_code, last);
  }
  return measured;
}

Check check_one_host(const Measured& measured) {
  return check("two ranks of this host", measured, kSlowHere_us, kSlowHere_gb,
               "two ranks with a core each take less than 10 us and reach several GB/s; other "
               "programs may use the cores, or there are too few",
               "end what else runs (top), or see `dlrun topo` and bind the ranks (dlrun --bind)");
}

Check check_two_hosts(const std::string& a, const std::string& b, const Measured& measured) {
  return check(fmt::format("ranks on {} and {}", a, b), measured, kSlowBetween_us, kSlowBetween_gb,
               "a link of 1 Gb/s gives 0.12 GB/s, one of 100 Gb/s 12 GB/s, in 20 to 100 us",
               fmt::format("ethtool NAME on both; dlrun --iface; dlrun --hosts {}:1,{}:1 dlbench "
                           "floor",
                           a, b));
}

}  // namespace dl::launcher::doctor
