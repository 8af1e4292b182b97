// What `dlrun doctor` says of one or several hosts.
//
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/checks/check.h"

namespace dl::launcher::doctor {

struct HostReport {
  std::string host;
  std::string version;        // of its dlrun
  std::int64_t began_ns = 0;  // its clock, since 1970, when its checks began
  std::int64_t ended_ns = 0;
  std::vector<std::string> addresses = {};  // at which other hosts may reach it
  Checks checks;
};

struct Report {
  std::vector<HostReport> hosts;
  Checks between;  // of several hosts; names name them
};

std::string_view word(Verdict verdict) noexcept;
bool is_anything_wrong(const Report& report);

// Lines without line breaks: the worst first.
std::vector<std::string> page(const Report& report);

// docs/reference/dlrun.md, "dlrun doctor", has the members.
nlohmann::ordered_json json_of(const Report& report);
// The text of another dlrun. nullopt: it is not what json_of() writes of one host.
std::optional<HostReport> read_host(std::string_view text);

}  // namespace dl::launcher::doctor
