#include "launcher/doctor/hosts.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/system/random_bits.h"
#include "core/base/text/name_list.h"
#include "core/base/version.h"
#include "launcher/doctor/measure.h"
#include "launcher/slurm/step/srun_line.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr double kSkewToWarn = 0.5;      // seconds
constexpr double kSkewIsWrong = 120;     // MUNGE and Kerberos refuse a few minutes
constexpr double kSlowRoundTrip = 1000;  // microseconds
// The ports that Linux gives to sockets that ask for none, as ranks do.
constexpr int kFirstPort = 32768;
constexpr int kLastPort = 60999;

std::string starter_of(const remote::HostChoice& choice) {
  return choice.by_srun ? "srun" : "ssh";
}

// The words that run `command` on a host.
std::string on_host(std::string_view starter, const std::string& host, std::string_view command) {
  return starter == "srun" ? fmt::format("srun --overlap --nodelist={} {}", host, command)
                           : fmt::format("ssh {} {}", host, command);
}

// The words that run a job of dlrun with a rank on each of two hosts.
std::string on_both(std::string_view starter, const std::string& a, const std::string& b) {
  return starter == "srun"
             ? fmt::format("srun --overlap --nodelist={},{} dlrun --nproc-per-node 1", a, b)
             : fmt::format("dlrun --hosts {},{}", a, b);
}

std::vector<Asked> ask_each(const remote::HostChoice& choice, const SubcommandLine& line) {
  std::vector<std::string> words = {"doctor", "--json"};
  if (line.has("--measure")) words.emplace_back("--measure");
  for (const char* const option : {"--ranks", "--log-dir"}) {
    if (const auto value = line.value_of(option)) words.insert(words.end(), {option, *value});
  }
  std::vector<remote::HostQuestion> questions;
  for (const std::string& host : choice.hosts) {
    std::string peers;
    for (const std::string& peer : choice.hosts) {
      if (peer != host) peers += (peers.empty() ? "" : ",") + peer;
    }
    questions.push_back({host, words});
    if (!peers.empty())
      questions.back().words.insert(questions.back().words.end(), {"--peers", peers});
  }
  std::vector<Asked> asked;
  for (const remote::HostAnswer& answer :
       remote::ask_hosts(questions, remote::asking(choice, kPatience))) {
    Asked one{.name = answer.host,
              .starter = starter_of(choice),
              .error = answer.error,
              .report = {},
              .began_ns = answer.began_ns,
              .ended_ns = answer.ended_ns};
    if (one.error.empty()) {
      if (auto report = read_host(answer.text)) {
        one.report = std::move(*report);
        one.report.host = answer.host;
      } else {
        one.error = remote::not_understood(answer.host);
      }
    }
    asked.push_back(std::move(one));
  }
  return asked;
}

std::vector<std::optional<MeshAnswer>> ask_mesh(const remote::HostChoice& choice,
                                                const std::vector<MeshHost>& hosts) {
  constexpr std::uint32_t kPorts = kLastPort - kFirstPort + 1;
  MeshQuestion question{.port = static_cast<std::uint16_t>(kFirstPort + random_bits() % kPorts),
                        .token = fmt::format("{:016x}", random_bits()),
                        .hosts = hosts};
  std::vector<remote::HostQuestion> questions;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    question.self = i;
    questions.push_back({hosts[i].name, {"doctor", "--json", "--mesh", text_of(question)}});
  }
  std::vector<std::optional<MeshAnswer>> answers;
  for (const remote::HostAnswer& answer :
       remote::ask_hosts(questions, remote::asking(choice, kPatience))) {
    answers.push_back(answer.error.empty() ? read_answer(answer.text) : std::nullopt);
  }
  return answers;
}

// "a", "[fe80::1]": as --hosts takes it before a number of slots.
std::string in_list(const std::string& host) {
  return host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
}

// The least by which the host's clock differs from ours, in seconds: its checks began after it was
// asked, and ended before its answer was complete.
double skew_of(const Asked& host) {
  constexpr double kSecond = 1e9;
  const auto ahead = static_cast<double>(host.report.ended_ns - host.ended_ns) / kSecond;
  const auto behind = static_cast<double>(host.began_ns - host.report.began_ns) / kSecond;
  return ahead > 0 ? ahead : behind > 0 ? -behind : 0;
}

TwoRanks ranks_on(const std::string& a, const std::string& b, const remote::HostChoice& choice,
                  const SubcommandLine& line) {
  if (choice.by_srun) {
    return {.before = srun_line(std::vector<std::string>{a, b}),
            .environment = environment_for_srun(),
            .options = {"--nproc-per-node", "1"}};
  }
  TwoRanks ranks{.options = {"--hosts", fmt::format("{}:1,{}:1", in_list(a), in_list(b))}};
  if (const auto ssh = line.value_of("--ssh")) {
    ranks.options.insert(ranks.options.end(), {"--ssh", *ssh});
  }
  return ranks;
}

// One pair after the other, since they would share links.
void add_measured(Checks& checks, const std::vector<std::string>& names,
                  const remote::HostChoice& choice, const SubcommandLine& line) {
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    checks.push_back(check_two_hosts(names[i], names[i + 1],
                                     measure(ranks_on(names[i], names[i + 1], choice, line))));
  }
}

}  // namespace

Checks check_answers(const std::vector<Asked>& hosts, std::string_view own_version) {
  Checks checks;
  for (const Asked& host : hosts) {
    checks.push_back(
        judged(fmt::format("{} to {}", host.starter, host.name),
               host.error.empty() ? "it answers" : host.error,
               {{!host.error.empty(), Verdict::kWrong,
                 host.starter == "srun" ? "dlrun starts ranks there by a step of srun"
                                        : "dlrun starts ranks there by ssh, which must ask nothing",
                 on_host(host.starter, host.name, "true")}}));
    if (!host.error.empty()) continue;
    checks.push_back(judged(
        fmt::format("dlrun's version on {}", host.name), host.report.version,
        {{host.report.version != own_version, Verdict::kWrong,
          fmt::format("this host has {}, and hosts of one job need one version", own_version),
          "install one version on all hosts, at one path"}}));
    const double skew = skew_of(host);
    const double size = std::abs(skew);
    const std::string mend = "sudo systemctl enable --now chronyd";
    const std::string why =
        "logs of hosts cannot be compared, and credentials look old or early; systemd-timesyncd "
        "serves as well as chronyd";
    checks.push_back(
        judged(fmt::format("clock of {}", host.name),
               size == 0 ? fmt::format("as here, as far as {} lets it be measured", host.starter)
                         : fmt::format("at least {:.1f} s {} this host's", size,
                                       skew > 0 ? "ahead of" : "behind"),
               {{size >= kSkewIsWrong, Verdict::kWrong, why, mend},
                {size >= kSkewToWarn, Verdict::kWarn, why, mend}}));
  }
  return checks;
}

Checks check_links(const std::vector<std::string>& names,
                   const std::vector<std::optional<MeshAnswer>>& answers,
                   std::string_view starter) {
  Checks checks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!answers[i]) {
      checks.push_back(
          unknown(fmt::format("connections from {}", names[i]), "the host has not answered"));
      continue;
    }
    if (!answers[i]->error.empty()) {
      checks.push_back(unknown(fmt::format("connections to {}", names[i]), answers[i]->error));
    }
    for (const MeshLink& link : answers[i]->links) {
      const auto to = std::ranges::find(names, link.to);
      const std::size_t at = static_cast<std::size_t>(to - names.begin());
      // A host that could not listen says nothing about the way to it, and one without an address
      // has a check of its own.
      if (to == names.end() || !answers[at] || !answers[at]->error.empty() || !link.was_tried) {
        continue;
      }
      checks.push_back(judged(
          fmt::format("connection {} to {}", names[i], link.to),
          link.address.empty()
              ? link.error
              : fmt::format("{}, round trip {:.0f} us", link.address, link.round_trip_us),
          {{link.address.empty(), Verdict::kWrong,
            "ranks connect at ports that the system picks, in both directions",
            fmt::format("let TCP ports {}-{} through between these hosts   (see `sudo nft list "
                        "ruleset` on {})",
                        kFirstPort, kLastPort, link.to)},
           {link.round_trip_us > kSlowRoundTrip, Verdict::kWarn,
            "hosts of one network take less than 200 us: each operation on small tensors waits for "
            "it",
            fmt::format("ping {}; {} dlbench", link.address,
                        on_both(starter, names[i], link.to))}}));
    }
  }
  return checks;
}

Report check_hosts(const remote::HostChoice& choice, const SubcommandLine& line) {
  const std::vector<Asked> asked = ask_each(choice, line);
  Report report{.hosts = {}, .between = check_answers(asked, kVersion)};
  std::vector<std::string> names;
  std::vector<MeshHost> mesh;
  for (const Asked& host : asked) {
    if (!host.error.empty()) continue;
    report.hosts.push_back(host.report);
    names.push_back(host.name);
    report.between.push_back(
        judged(fmt::format("addresses of {}", host.name),
               host.report.addresses.empty() ? "none" : detail::name_list(host.report.addresses),
               {{host.report.addresses.empty(), Verdict::kWrong,
                 "no other host can reach it; the command shows its interfaces",
                 on_host(host.starter, host.name, "ip address")}}));
    mesh.push_back({.name = host.name, .addresses = host.report.addresses});
  }
  if (names.size() > 1) {
    const Checks links = check_links(names, ask_mesh(choice, mesh), starter_of(choice));
    report.between.insert(report.between.end(), links.begin(), links.end());
    if (line.has("--measure")) add_measured(report.between, names, choice, line);
  }
  return report;
}

}  // namespace dl::launcher::doctor
