#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "core/base/text/columns.h"
#include "core/base/text/name_list.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"
#include "launcher/jobs/view/job.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher::jobs {
namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t kMostProgram = 60;  // bytes
constexpr std::int64_t kSecond = 1'000'000'000;

// "12 s", "3 min", "5 h 7 min", "2 d 3 h"
std::string span_of(std::int64_t seconds) {
  seconds = std::max<std::int64_t>(seconds, 0);
  if (seconds < 60) return fmt::format("{} s", seconds);
  const std::int64_t minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  const std::int64_t hours = minutes / 60;
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

// "2026-11-29 13:50:12, 4 min"
std::string since(std::int64_t began_ns, std::int64_t now_ns) {
  const auto began = static_cast<std::time_t>(began_ns / kSecond);
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&began, &local) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local) == 0) {
    return "?";
  }
  return fmt::format("{}, {}", text.data(), span_of((now_ns - began_ns) / kSecond));
}

std::string line_of(const std::vector<std::string>& program) {
  std::string line;
  for (const std::string& word : program) {
    line += (line.empty() ? "" : " ") + shown_word(word);
    if (line.size() > kMostProgram) break;
  }
  if (line.size() <= kMostProgram) return line;
  std::size_t end = kMostProgram;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
  return line.substr(0, end) + "...";
}

std::string node_of(const JobView& job) {
  if (!job.hosts.empty()) {
    Cells names;
    for (const std::string& host : job.hosts) names.push_back(shown_word(host));
    return "on " + detail::name_list(std::move(names));
  }
  if (job.nodes == 1) return "-";
  return job.node ? fmt::format("{} of {}", *job.node, job.nodes)
                  : fmt::format("? of {}", job.nodes);
}

std::string state_of(const JobView& job) {
  if (job.is == JobView::Is::kStarting && job.nodes > 1) return "waits for its nodes";
  std::string text(word(job.is));
  if (job.attempt > 0) text += fmt::format(", attempt {}", job.attempt);
  return text;
}

std::string state_of(const RankView& rank) {
  if (rank.is == RankView::Is::kEnded) return rank.ended.empty() ? "ended" : printable(rank.ended);
  if (rank.operation.empty()) return std::string(word(rank.is));
  const std::string time = rank.operation_s ? fmt::format(", {:.1f} s", *rank.operation_s) : "";
  return fmt::format("{}in {}{}", rank.is == RankView::Is::kStopped ? "stopped " : "",
                     printable(rank.operation), time);
}

std::vector<std::string> lines_of_ranks(const JobView& job) {
  std::vector<Cells> rows;
  if (job.ranks.empty()) return {};
  rows.push_back({"  rank", "pid", "state", "waits for"});
  for (const RankView& rank : job.ranks) {
    rows.push_back({fmt::format("  {}", rank.rank), rank.pid ? fmt::format("{}", *rank.pid) : "-",
                    state_of(rank),
                    rank.waits_for.empty() ? "-" : rendezvous::rank_list(rank.waits_for)});
  }
  return in_columns(rows);
}

}  // namespace

std::string shown_word(std::string_view text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\';
  });
  if (is_plain) return std::string(text);
  return quoted_name(text);
}

std::vector<std::string> page(const std::vector<HostJobs>& hosts, std::int64_t now_ns) {
  std::vector<std::string> lines;
  for (const HostJobs& host : hosts) {
    if (!host.error.empty()) continue;
    if (!lines.empty()) lines.emplace_back();
    const std::string count = host.jobs.empty() ? "no jobs" : counted(host.jobs.size(), "job");
    lines.push_back(fmt::format("{}: {}", shown_word(host.host), count));
    if (host.jobs.empty()) continue;
    std::vector<Cells> rows = {{"job", "dlrun", "node", "state", "since", "program"}};
    for (const JobView& job : host.jobs) {
      rows.push_back({shown_word(job.name), fmt::format("{}", job.pid), node_of(job), state_of(job),
                      since(job.began_ns, now_ns), line_of(job.program)});
    }
    const Cells heads = in_columns(rows);
    lines.push_back(heads.front());
    for (std::size_t i = 0; i < host.jobs.size(); ++i) {
      lines.push_back(heads[i + 1]);
      for (std::string& line : lines_of_ranks(host.jobs[i])) lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace dl::launcher::jobs
