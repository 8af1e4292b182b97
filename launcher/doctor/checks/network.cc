#include <fmt/core.h>
#include <sys/timex.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "core/base/error.h"
#include "core/base/system/small_file.h"
#include "core/base/text/name_list.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/process/ask/ask.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::chrono::seconds kPatienceWithNames{5};
constexpr double kSlowName = 1;  // seconds
constexpr int kLeastMtu = 1500;
constexpr int kLargeMtu = 9000;
constexpr int kLeastSpeed = 1000;   // Mb/s
constexpr int kFastSpeed = 25'000;  // from which large frames pay

std::vector<NetworkFacts::Interface> interfaces_of(const std::string& root) {
  std::vector<NetworkFacts::Interface> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/sys/class/net", error)) {
    NetworkFacts::Interface one{.name = entry.path().filename().string()};
    if (one.name == "lo") continue;
    const std::string folder = entry.path().string();
    // Tunnels and some virtual devices have no state of their own.
    const std::string state = first_line(folder + "/operstate").value_or("down");
    one.is_up = state == "up" || state == "unknown";
    const auto number = [&](const char* file) -> std::optional<int> {
      const auto value = number_in(folder + "/" + file);
      return value && *value > 0 ? std::optional(static_cast<int>(*value)) : std::nullopt;
    };
    one.mtu = number("mtu");
    one.speed = number("speed");
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, {}, &NetworkFacts::Interface::name);
  return found;
}

// Asks as programs do, by the host's nsswitch.conf.
NetworkFacts::Name look_up(const std::string& name) {
  NetworkFacts::Name found{.name = name, .addresses = {}};
  const auto began = std::chrono::steady_clock::now();
  try {
    const Answer answer = ask({"getent", "ahosts", name}, {.patience = kPatienceWithNames});
    std::istringstream lines(answer.status == 0 ? answer.text : "");
    for (std::string line; std::getline(lines, line);) {
      std::string address = line.substr(0, line.find(' '));
      if (std::ranges::find(found.addresses, address) == found.addresses.end()) {
        found.addresses.push_back(std::move(address));
      }
    }
  } catch (const Error&) {
    // Not found in time.
  }
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return found;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Check check_name(const NetworkFacts::Name& name) {
  const std::string title =
      name.is_of_other_host ? fmt::format("name of host {}", name.name) : "name of this host";
  const bool only_loopback =
      !name.addresses.empty() && std::ranges::all_of(name.addresses, is_loopback);
  const std::string entry = fmt::format("echo 'ADDRESS {}' | sudo tee -a /etc/hosts", name.name);
  return judged(
      title,
      fmt::format("{}: {}", name.name,
                  name.addresses.empty() ? "no address" : detail::name_list(name.addresses)),
      {{name.addresses.empty() && name.is_of_other_host, Verdict::kWarn,
        "programs on this host that are told that name do not find it (dlrun's nodes tell each "
        "other "
        "addresses)",
        entry},
       {name.addresses.empty(), Verdict::kWarn,
        "Gloo and MPI look up the host's own name, and fail or wait for the name server", entry},
       {only_loopback && !name.is_of_other_host, Verdict::kWarn,
        "Gloo and MPI tell other hosts this address, which leads them to themselves (dlrun does "
        "not)",
        fmt::format("give {} its address of the network in /etc/hosts", name.name)},
       {only_loopback, Verdict::kWarn, "that name leads to this host itself", entry},
       {name.seconds > kSlowName, Verdict::kWarn,
        fmt::format("it took {:.1f} s to find, and each connection by name takes as long",
                    name.seconds),
        entry}});
}

Check check_interface(const NetworkFacts::Interface& one) {
  std::string found = one.speed ? fmt::format("{} Mb/s", *one.speed) : "speed not known";
  if (one.mtu) found += fmt::format(", MTU {}", *one.mtu);
  const std::string large = fmt::format("sudo ip link set {} mtu {}", one.name, kLargeMtu);
  return judged(
      fmt::format("interface {}", one.name), found,
      {{one.speed && *one.speed < kLeastSpeed, Verdict::kWarn,
        fmt::format("gradients of 100 MB take {:.0f} s between two hosts over this link",
                    800.0 / one.speed.value_or(1)),
        fmt::format("use another one (dlrun --iface), or see `ethtool {}`", one.name)},
       {one.mtu && *one.mtu < kLeastMtu, Verdict::kWarn,
        "small frames cost CPU time, and a peer with larger ones may lose packets",
        fmt::format("sudo ip link set {} mtu {}", one.name, kLeastMtu)},
       {one.speed && *one.speed >= kFastSpeed && one.mtu && *one.mtu < kLargeMtu, Verdict::kWarn,
        "a fast link needs large frames, which all switches must let through: with small ones the "
        "CPU may be its limit",
        large}});
}

}  // namespace

NetworkFacts read_network(const std::string& root, const std::vector<std::string>& peers) {
  NetworkFacts facts{.interfaces = interfaces_of(root), .names = {}, .is_clock_synced = {}};
  facts.names.push_back(look_up(host_name()));
  for (const std::string& peer : peers) {
    facts.names.push_back(look_up(peer));
    facts.names.back().is_of_other_host = true;
  }
  timex clock{};
  if (::adjtimex(&clock) >= 0) facts.is_clock_synced = (clock.status & STA_UNSYNC) == 0;
  return facts;
}

Checks check_network(const NetworkFacts& facts) {
  Checks checks;
  const bool any_up = std::ranges::any_of(facts.interfaces, &NetworkFacts::Interface::is_up);
  if (!any_up) {
    checks.push_back(judged("interfaces", "none is up beside the loopback",
                            {{true, Verdict::kWarn, "a job on several hosts cannot reach this one",
                              "ip link; sudo ip link set NAME up"}}));
  }
  for (const NetworkFacts::Interface& one : facts.interfaces) {
    if (one.is_up) checks.push_back(check_interface(one));
  }
  for (const NetworkFacts::Name& name : facts.names) checks.push_back(check_name(name));
  if (facts.is_clock_synced) {
    checks.push_back(judged(
        "clock", *facts.is_clock_synced ? "synchronised" : "not synchronised",
        {{!*facts.is_clock_synced, Verdict::kWarn,
          "clocks of hosts drift apart: logs cannot be compared, and MUNGE refuses credentials; "
          "systemd-timesyncd serves as well as chronyd",
          "sudo systemctl enable --now chronyd"}}));
  } else {
    checks.push_back(unknown("clock", "the kernel does not say if it is synchronised"));
  }
  return checks;
}

}  // namespace dl::launcher::doctor
