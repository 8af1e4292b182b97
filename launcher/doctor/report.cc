#include "launcher/doctor/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/text/columns.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"

namespace dl::launcher::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr Verdict kWorstFirst[] = {Verdict::kWrong, Verdict::kWarn, Verdict::kUnknown,
                                   Verdict::kOk};
constexpr std::string_view kVerdicts[] = {"wrong", "warn", "unknown", "ok"};

Json json_of(const Checks& checks) {
  Json all = Json::array();
  for (const Check& check : checks) {
    all.push_back({{"name", check.name},
                   {"found", check.found},
                   {"verdict", word(check.verdict)},
                   {"why", check.why.empty() ? Json() : Json(check.why)},
                   {"mend", check.mend.empty() ? Json() : Json(check.mend)}});
  }
  return all;
}

std::string text_or_null(const Json& json) {
  return json.is_null() ? std::string() : json.get<std::string>();
}

// One line of text from anywhere.
std::string one_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\t', ' ');
  return line;
}

struct Entry {
  const Check* check;
  std::string host;  // empty: there is only one, or several are concerned
};

std::size_t count(const std::vector<Entry>& entries, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries, [&](const Entry& entry) { return entry.check->verdict == verdict; }));
}

}  // namespace

std::string_view word(Verdict verdict) noexcept {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}

bool is_anything_wrong(const Report& report) {
  const auto has_wrong = [](const Checks& checks) {
    return std::ranges::find(checks, Verdict::kWrong, &Check::verdict) != checks.end();
  };
  return has_wrong(report.between) ||
         std::ranges::any_of(report.hosts,
                             [&](const HostReport& host) { return has_wrong(host.checks); });
}

std::vector<std::string> page(const Report& report) {
  std::vector<Entry> entries;
  const bool are_several = report.hosts.size() > 1;
  for (const Verdict verdict : kWorstFirst) {
    const auto add = [&](const Checks& checks, const std::string& host) {
      for (const Check& check : checks) {
        if (check.verdict == verdict) entries.push_back({&check, host});
      }
    };
    add(report.between, "");
    for (const HostReport& host : report.hosts) {
      add(host.checks, are_several ? host.host + ": " : "");
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const Entry& entry : entries) {
    rows.push_back({std::string(word(entry.check->verdict)),
                    one_line(entry.host + entry.check->name), one_line(entry.check->found)});
  }
  const std::vector<std::string> table = in_columns(rows);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    lines.push_back(table[i]);
    const Check& check = *entries[i].check;
    if (!check.why.empty()) lines.push_back("         why: " + one_line(check.why));
    if (!check.mend.empty()) lines.push_back("         mend: " + one_line(check.mend));
  }
  lines.push_back(fmt::format("{}: {} wrong, {}, {} not known", counted(entries.size(), "check"),
                              count(entries, Verdict::kWrong),
                              counted(count(entries, Verdict::kWarn), "warning"),
                              count(entries, Verdict::kUnknown)));
  return lines;
}

Json json_of(const Report& report) {
  Json hosts = Json::array();
  for (const HostReport& host : report.hosts) {
    hosts.push_back({{"host", host.host},
                     {"version", host.version},
                     {"began_ns", host.began_ns},
                     {"ended_ns", host.ended_ns},
                     {"addresses", host.addresses},
                     {"checks", json_of(host.checks)}});
  }
  return {{"is_anything_wrong", is_anything_wrong(report)},
          {"hosts", std::move(hosts)},
          {"between", json_of(report.between)}};
}

std::optional<HostReport> read_host(std::string_view text) {
  try {
    const Json all = Json::parse(text);
    const Json& json = all.at("hosts").at(0);
    HostReport host{.host = json.at("host").get<std::string>(),
                    .version = json.at("version").get<std::string>(),
                    .began_ns = json.at("began_ns").get<std::int64_t>(),
                    .ended_ns = json.at("ended_ns").get<std::int64_t>(),
                    .addresses = json.at("addresses").get<std::vector<std::string>>(),
                    .checks = {}};
    for (const Json& one : json.at("checks")) {
      const auto verdict = one.at("verdict").get<std::string>();
      const auto* const found = std::ranges::find(kVerdicts, verdict);
      if (found == std::end(kVerdicts)) return std::nullopt;
      host.checks.push_back({.name = one.at("name").get<std::string>(),
                             .found = one.at("found").get<std::string>(),
                             .verdict = static_cast<Verdict>(found - kVerdicts),
                             .why = text_or_null(one.at("why")),
                             .mend = text_or_null(one.at("mend"))});
    }
    return host;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace dl::launcher::doctor
