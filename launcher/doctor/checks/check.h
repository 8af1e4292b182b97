// Checks: what would make a job slow or fail on a host, each with its reason and its cure.
//
// A family of checks is a struct of facts, a function that reads them, and a function that judges
// them. The second one is pure, so a test can make each check fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::doctor {

enum class Verdict : std::uint8_t {
  kWrong,    // a job fails, or may fail
  kWarn,     // a job may be slow, or some jobs fail
  kUnknown,  // the fact could not be read
  kOk,
};

struct Check {
  std::string name;   // "open files (ulimit -n)"
  std::string found;  // "1024, at most 4096"
  Verdict verdict = Verdict::kOk;
  std::string why = {};   // why it matters, a sentence; empty if it is in order
  std::string mend = {};  // the command that mends it; empty: there is none
};
using Checks = std::vector<Check>;

// The line that a verdict needs, with the worst one first.
struct Rule {
  bool applies = false;
  Verdict verdict = Verdict::kWrong;
  std::string why = {};
  std::string mend = {};
};
// The check with the first rule that applies; kOk if none does.
Check judged(std::string name, std::string found, const std::vector<Rule>& rules);
Check unknown(std::string name, std::string why);

inline constexpr std::uint64_t kMiB = 1U << 20;
inline constexpr std::uint64_t kGiB = 1U << 30;

// The number in the first line of a file of /proc or /sys; nullopt if there is none.
std::optional<std::int64_t> number_in(const std::string& file);
// "252.4 GiB", "512 MiB", "no limit" for UINT64_MAX
std::string size_text(std::uint64_t bytes);

}  // namespace dl::launcher::doctor
