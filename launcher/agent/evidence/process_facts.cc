#include "launcher/agent/evidence/process_facts.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "core/base/system/process/process_stat.h"
#include "core/base/text/columns.h"
#include "launcher/process/descendants.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMostProcesses = 16;  // of a rank
constexpr std::size_t kMostFrames = 5;

const char* state_word(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
    case 'I':
      return "sleeps";
    case 'D':
      return "waits in the kernel";
    case 'T':
      return "is stopped";
    case 't':
      return "is held by a debugger";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return "is gone";
  }
}

const char* thread_word(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'D':
      return "waiting in the kernel";
    case 'T':
    case 't':
      return "stopped";
    default:
      return "asleep";
  }
}

// "12 (11 asleep, 1 running)"
std::string threads_text(pid_t pid) {
  std::map<std::string, int> states;
  int all = 0;
  for (const pid_t thread : threads_of(pid)) {
    const char state = read_stat(fmt::format("/proc/{}/task/{}", pid, thread)).state;
    if (state == 0) continue;
    ++all;
    ++states[thread_word(state)];
  }
  if (all < 2) return std::to_string(all);
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) parts.push_back(fmt::format("{} {}", count, state));
  return fmt::format("{} ({})", all, fmt::join(parts, ", "));
}

// "futex_wait < do_futex < ...", innermost first; empty if it cannot be read: only root can.
std::string kernel_stack(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stack", pid));
  std::vector<std::string> frames;
  for (std::string line; frames.size() < kMostFrames && std::getline(file, line);) {
    const std::size_t name = line.find("] ");  // "[<0>] futex_wait+0x1/0x2"
    if (name == std::string::npos) continue;
    frames.push_back(line.substr(name + 2, line.find('+') - name - 2));
  }
  return fmt::format("{}", fmt::join(frames, " < "));
}

}  // namespace

std::vector<std::string> process_facts(const std::vector<RankProcess>& ranks) {
  std::vector<std::array<std::string, 6>> rows = {
      {"rank", "process", "that", "in", "CPU time", "threads"}};
  std::vector<std::string> stacks;
  std::vector<std::string> notes;
  for (const RankProcess& rank : ranks) {
    std::vector<pid_t> tree = tree_of(rank.pid);
    if (tree.size() > kMostProcesses) {
      notes.push_back(
          fmt::format("rank {} has {} more processes", rank.rank, tree.size() - kMostProcesses));
      tree.resize(kMostProcesses);
    }
    std::string number = std::to_string(rank.rank);
    for (const pid_t pid : tree) {
      const std::string folder = fmt::format("/proc/{}", pid);
      const ProcessStat stat = read_stat(folder);
      const std::string channel = wait_channel(folder);
      rows.push_back({std::exchange(number, ""), fmt::format("{}:{}", stat.name, pid),
                      state_word(stat.state), channel.empty() ? "-" : channel,
                      fmt::format("{:.2f} s", stat.cpu_s), threads_text(pid)});
      const std::string stack = stat.state == 'R' ? "" : kernel_stack(pid);
      if (!stack.empty()) {
        stacks.push_back(fmt::format("the kernel's stack of {}:{}: {}", stat.name, pid, stack));
      }
    }
  }
  std::vector<std::string> lines = in_columns(rows);
  for (const auto* more : {&stacks, &notes}) {
    if (more->empty()) continue;
    lines.emplace_back();
    lines.insert(lines.end(), more->begin(), more->end());
  }
  return lines;
}

}  // namespace dl::launcher
