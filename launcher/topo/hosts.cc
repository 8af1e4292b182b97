#include "launcher/topo/hosts.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>

#include "core/base/error.h"
#include "core/base/text/number.h"

namespace dl::launcher::topo {
namespace {

constexpr std::chrono::seconds kPatience{60};  // a driver may take 30 s to answer

// All that a person can see of it, without the host's name.
std::string sight_of(HostMap map) {
  map.host.clear();
  return fmt::format("{}\n{}\n{}", fmt::join(page(map), "\n"), fmt::join(matrix(map), "\n"),
                     picture({map}));
}

// "n09" before "n10": only the last digits differ, by one.
bool is_next(const std::string& name, const std::string& next) {
  const auto digits_at = [](const std::string& text) {
    std::size_t at = text.size();
    while (at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0) --at;
    return at;
  };
  const std::size_t at = digits_at(name);
  if (digits_at(next) != at || name.compare(0, at, next, 0, at) != 0) return false;
  const auto number = read_number<std::uint64_t>(std::string_view(name).substr(at));
  const auto next_number = read_number<std::uint64_t>(std::string_view(next).substr(at));
  if (!number || !next_number || *next_number == 0 || *next_number - 1 != *number) return false;
  // Names with zeros in front have one length: n09, n10; names without are n9, n10.
  return name.size() == next.size() || (name[at] != '0' && next[at] != '0');
}

}  // namespace

std::string ranges_of(const std::vector<std::string>& names) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t last = i;
    while (last + 1 < names.size() && is_next(names[last], names[last + 1])) ++last;
    ranges.push_back(last == i ? names[i] : fmt::format("{}-{}", names[i], names[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

AskedHost map_in(const remote::HostAnswer& answer) {
  AskedHost host{.error = answer.error, .map = {}};
  try {
    if (host.error.empty()) host.map = read_map(answer.text);
  } catch (const Error& error) {
    host.error = fmt::format("{} ({})", remote::not_understood(answer.host), error.what());
  }
  host.map.host = answer.host;
  return host;
}

std::vector<AskedHost> ask_maps(const remote::HostChoice& choice) {
  std::vector<remote::HostQuestion> questions;
  for (const std::string& host : choice.hosts) questions.push_back({host, {"topo", "--json"}});
  std::vector<AskedHost> hosts;
  for (const remote::HostAnswer& answer :
       remote::ask_hosts(questions, remote::asking(choice, kPatience))) {
    hosts.push_back(map_in(answer));
  }
  return hosts;
}

std::vector<HostMap> alike(const std::vector<AskedHost>& hosts) {
  std::vector<HostMap> maps;
  std::vector<std::vector<std::string>> names;
  std::map<std::string, std::size_t> index_of;
  for (const AskedHost& host : hosts) {
    if (!host.error.empty()) continue;
    const auto [at, is_new] = index_of.try_emplace(sight_of(host.map), maps.size());
    if (is_new) {
      maps.push_back(host.map);
      names.emplace_back();
    }
    names[at->second].push_back(host.map.host);
  }
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (names[i].size() == 1) continue;
    maps[i].host = fmt::format("{} ({})", counted(names[i].size(), "host"), ranges_of(names[i]));
  }
  return maps;
}

}  // namespace dl::launcher::topo
