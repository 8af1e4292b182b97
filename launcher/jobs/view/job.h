// A job as `dlrun ps` shows it: a dlrun of this user and its ranks.
//
// Values; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::jobs {

struct RankView {
  enum class Is : std::uint8_t { kStarting, kRunning, kInOperation, kStopped, kEnded };
  int rank = -1;
  std::optional<pid_t> pid;  // as this process sees it; nullopt: none, or on another host
  Is is = Is::kStarting;
  std::string ended;                  // kEnded: "ended with exit code 1"
  std::string operation;              // kInOperation: "all_reduce #42 (f32[1000] sum)"
  std::optional<double> operation_s;  // since it was called
  std::vector<int> waits_for;         // ranks of the job
};

struct JobView {
  enum class Is : std::uint8_t { kStarting, kRunning, kStopped, kEnding };
  std::string id;  // "4711@1234567": the dlrun's pid, and its start in clock ticks since boot
  std::string name;
  pid_t pid = -1;
  std::string host;         // as the job names it
  bool is_agent = false;    // a dlrun on another host has started this one
  std::optional<int> node;  // nullopt: it is not numbered yet, or its ranks are on other hosts
  int nodes = 1;
  std::vector<std::string> hosts;  // on which the ranks run, if dlrun has started them there
  Is is = Is::kStarting;
  std::int64_t began_ns = 0;  // since 1970
  int attempt = 0;
  std::vector<std::string> program;
  std::string log_dir;
  std::vector<RankView> ranks;
};

// The jobs of one host.
struct HostJobs {
  std::string host;
  std::string error;  // a sentence: it could not be asked; empty: it has answered
  std::vector<JobView> jobs;
};

std::string_view word(JobView::Is is) noexcept;
std::string_view word(RankView::Is is) noexcept;

// docs/reference/dlrun.md, "dlrun ps", has the members.
nlohmann::ordered_json json_of(const std::vector<HostJobs>& hosts);
// The text of another dlrun. nullopt: it is not what json_of() writes.
std::optional<std::vector<HostJobs>> read_jobs(std::string_view text);

// Lines without line breaks. `now_ns`: since 1970.
std::vector<std::string> page(const std::vector<HostJobs>& hosts, std::int64_t now_ns);

// One word of a table or a sentence: in quotes, with its control characters escaped, if it holds
// more than plain characters.
std::string shown_word(std::string_view text);

}  // namespace dl::launcher::jobs
