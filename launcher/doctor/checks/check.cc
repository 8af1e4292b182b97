#include "launcher/doctor/checks/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "core/base/system/small_file.h"
#include "core/base/text/number.h"

namespace dl::launcher::doctor {

Check judged(std::string name, std::string found, const std::vector<Rule>& rules) {
  Check check{.name = std::move(name), .found = std::move(found)};
  const auto rule = std::ranges::find_if(rules, &Rule::applies);
  if (rule == rules.end()) return check;
  check.verdict = rule->verdict;
  check.why = rule->why;
  check.mend = rule->mend;
  return check;
}

Check unknown(std::string name, std::string why) {
  return {.name = std::move(name),
          .found = "not known",
          .verdict = Verdict::kUnknown,
          .why = std::move(why)};
}

std::optional<std::int64_t> number_in(const std::string& file) {
  const std::optional<std::string> line = first_line(file);
  return line ? read_number<std::int64_t>(*line) : std::nullopt;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes == std::numeric_limits<std::uint64_t>::max()) return "no limit";
  constexpr double kKiB = 1024;
  const auto size = static_cast<double>(bytes);
  if (size >= kKiB * kKiB * kKiB) return fmt::format("{:.1f} GiB", size / kKiB / kKiB / kKiB);
  if (size >= kKiB * kKiB) return fmt::format("{:.0f} MiB", size / kKiB / kKiB);
  return fmt::format("{:.0f} KiB", size / kKiB);
}

}  // namespace dl::launcher::doctor
