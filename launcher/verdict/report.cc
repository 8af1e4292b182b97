#include "launcher/verdict/report.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/system/process/shell.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kTailLines = 12;
constexpr std::size_t kErrorFileBytes = 8 * 1024;
constexpr std::size_t kErrorFileLines = 40;
constexpr std::size_t kMessageBytes = 400;

// The last `most` lines, as a terminal would have shown them.
std::vector<std::string> last_lines(std::string_view text, std::size_t most) {
  std::vector<std::string> lines;
  while (text.ends_with('\n')) text.remove_suffix(1);
  while (!text.empty() && lines.size() < most) {
    const std::size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    std::string_view line = text.substr(begin);
    while (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(line.rfind('\r') + 1);
    lines.emplace_back(line);
    text = text.substr(0, begin == 0 ? 0 : begin - 1);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string seconds(std::chrono::milliseconds time) {
  const double s = static_cast<double>(time.count()) / 1000;
  return s < 10 ? fmt::format("{:.2f} s", s) : fmt::format("{:.1f} s", s);
}

bool was_killed(const RankFacts& rank) {
  return WIFSIGNALED(rank.end.status) && WTERMSIG(rank.end.status) == SIGKILL;
}

bool is_out_of_memory(const RankFacts& rank) {
  return was_killed(rank) && rank.ended_by == 0 && rank.memory_kills.value_or(0) > 0;
}

// Who killed a process. The kernel counts what it has killed for want of memory, but not which.
std::string about_memory(const RankFacts& rank) {
  if (is_out_of_memory(rank)) {
    return "  dlrun did not send this signal; the kernel probably did, as memory ran out: the "
           "control group's counter oom_kill has risen";
  }
  if (rank.memory_kills.value_or(0) > 0) {
    return fmt::format(
        "  meanwhile memory ran out, and the kernel killed {} process{} of the control group",
        *rank.memory_kills, *rank.memory_kills == 1 ? "" : "es");
  }
  if (!was_killed(rank)) return {};
  return rank.memory_kills
             ? "  dlrun did not send this signal, nor did the kernel for want of memory"
             : "  dlrun did not send this signal; where memory runs out, the kernel "
               "does";
}

}  // namespace

std::string fate_of(const RankFacts& rank) {
  using rendezvous::Blame;
  if (!rank.started) return "not started";
  if (!rank.ended) return "ended with the supervisor";
  std::string fate;
  if (rank.ended_by != 0) {
    fate = fmt::format("ended by dlrun with {}", signal_name(rank.ended_by));
  } else {
    const std::string why = rendezvous::why_it_failed(rank.end);
    fate = why.empty() ? rank.end.how() : "failed " + why;
  }
  if (rank.end.lost_peer) return "lost a peer, " + fate;
  if (rank.end.follows) {
    const rendezvous::Cause& why = rank.end.follows->cause;
    if (why.blame == Blame::kMissing && why.rank == rank.rank) {
      return fmt::format("had not done its part in {}, {}", place_of(why), fate);
    }
  }
  return fate;
}

std::string describe_end(const RankFacts& rank, const Place& place) {
  const std::string message = read_error_file(rank.error_file).message;
  return fmt::format("rank {} (node {}, host {}, pid {}) {}{} after {}{}{}", rank.rank, place.node,
                     place.host, rank.pid, rank.end.how(),
                     is_out_of_memory(rank) ? ", probably out of memory," : "", seconds(rank.ran),
                     message.empty() ? "" : ": ", message);
}

ErrorFile read_error_file(const std::string& content) {
  using nlohmann::json;
  const json parsed = json::parse(content, nullptr, /*allow_exceptions=*/false);
  ErrorFile file;
  if (parsed.is_object() && parsed.contains("message")) {
    const json& message = parsed["message"];
    if (message.is_string()) file.text = message.get<std::string>();
    if (message.is_object() && message.contains("message") && message["message"].is_string()) {
      file.text = message["message"].get<std::string>();
    }
    // The first line that is not blank.
    const std::size_t begin = file.text.find_first_not_of(" \t\r\n");
    if (begin != std::string::npos) {
      file.message = file.text.substr(begin, file.text.find_first_of("\r\n", begin) - begin);
    }
    const json& extra =
        message.is_object() && message.contains("extraInfo") ? message["extraInfo"] : json();
    // The stack ends with the message and tells the place of the error.
    if (extra.is_object() && extra.contains("py_callstack") && extra["py_callstack"].is_string()) {
      file.text = extra["py_callstack"].get<std::string>();
    }
  }
  if (file.text.empty()) file.text = content;
  if (file.text.size() > kErrorFileBytes) file.text.erase(0, file.text.size() - kErrorFileBytes);
  if (file.message.empty()) {
    const std::vector<std::string> last = last_lines(file.text, 1);
    if (!last.empty()) file.message = last.front();
  }
  if (file.message.size() > kMessageBytes)
    file.message.replace(kMessageBytes, std::string::npos, "...");
  return file;
}

std::string fate_of_others(int cause, const std::vector<RankFacts>& all) {
  std::map<std::string, std::vector<int>> fates;
  for (const RankFacts& rank : all) {
    if (rank.rank != cause) fates[fate_of(rank)].push_back(rank.rank);
  }
  std::string text;
  for (const auto& [fate, ranks] : fates) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", rank_list(ranks), fate);
  }
  return text;
}

std::vector<std::string> last_words(const RankFacts& cause, bool by_name) {
  const std::string it = by_name ? fmt::format("rank {}", cause.rank) : "it";
  const std::string its = by_name ? it + "'s" : "its";
  std::vector<std::string> page;
  if (cause.ended_by != 0) {
    if (!cause.end.stopped) {
      page.emplace_back("  dlrun passed this signal on, and the rank does not handle it");
    }
  } else if (std::string memory = about_memory(cause); !memory.empty()) {
    page.push_back(std::move(memory));
  }
  const bool spoke = !cause.stderr_tail.empty();
  const std::vector<std::string> lines =
      last_lines(spoke ? cause.stderr_tail : cause.stdout_tail, kTailLines);
  if (!cause.error_file.empty()) {
    // The first line has the message; what led to it mostly stands on stderr too.
    const std::vector<std::string> left =
        last_lines(read_error_file(cause.error_file).text, kErrorFileLines);
    const bool said = left.size() < 2 ||
                      std::any_of(
                          lines.begin(), lines.end(),
                          [&](auto& line) { return line.find(left.back()) != std::string::npos; });
    if (!said) page.push_back(fmt::format("  {} left in its error file:", it));
    for (std::size_t i = 0; i < left.size() && !said; ++i) {
      page.push_back(fmt::format("    | {}", left[i]));
    }
  }
  if (lines.empty()) {
    if (cause.error_file.empty()) page.push_back(fmt::format("  {} wrote nothing", it));
  } else {
    page.push_back(fmt::format("  {} last lines on {}:", its, spoke ? "stderr" : "stdout"));
    for (const std::string& line : lines) page.push_back(fmt::format("    | {}", line));
  }
  return page;
}

std::string restart_sentence(const rendezvous::Restart& restart) {
  std::string text =
      fmt::format("restart {} of {}: all ranks begin again", restart.number, restart.most);
  const auto wait = std::chrono::duration_cast<std::chrono::seconds>(restart.delay).count();
  if (wait > 0) text += fmt::format(" in {} s, as they fail soon after each start", wait);
  return text;
}

}  // namespace dl::launcher
