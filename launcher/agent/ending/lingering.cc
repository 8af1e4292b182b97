#include "launcher/agent/ending/lingering.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"
#include "core/base/system/process/process_stat.h"
#include "launcher/process/descendants.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMostNamed = 8;

struct Reading {
  Mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> text DL_GUARDED_BY(mutex);
};

void read_environment(pid_t pid, Reading& reading) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const Lock lock(reading.mutex);
  reading.text = std::move(text);
  reading.changed.notify_one();
}

// The environment of a process; empty if it cannot be read in time. The kernel may hold the memory
// of a process that waits for a disk. So a thread reads it, which is left behind in that case.
std::string environment_in_time(pid_t pid, rendezvous::Deadline deadline) {
  const auto reading = std::make_shared<Reading>();
  if (deadline.has_passed()) return "";
  try {
    make_thread("a process's environment", [reading, pid] {
      try {
        read_environment(pid, *reading);
      } catch (const std::exception&) {  // out of memory: the wait below ends at its deadline
      }
    }).detach();
  } catch (const Error&) {
    return "";
  }
  Lock lock(reading->mutex);
  wait_until(reading->changed, lock.native(), deadline,
             [&]() DL_REQUIRES(reading->mutex) { return reading->text.has_value(); });
  return reading->text.value_or("");
}

// The rank that an environment names; -1: none of this job. A program that a rank starts may run a
// job of its own, whose ranks have other numbers.
int rank_in(const std::string& environment, const std::string& job) {
  const std::string job_entry = fmt::format("{}={}", env::name_of(env::Var::kJobId), job);
  const std::string rank_entry = fmt::format("{}=", env::name_of(env::Var::kRank));
  std::istringstream entries(environment);
  std::string rank;
  bool is_of_job = false;
  for (std::string entry; std::getline(entries, entry, '\0');) {
    is_of_job = is_of_job || entry == job_entry;
    if (entry.starts_with(rank_entry)) rank = entry.substr(rank_entry.size());
  }
  const bool is_number =
      !rank.empty() && rank.size() < 9 && rank.find_first_not_of("0123456789") == std::string::npos;
  return is_of_job && is_number ? std::stoi(rank) : -1;
}

// `known`: the ranks of other processes by process id, and of ranks themselves.
int rank_of(pid_t pid, pid_t parent, const std::map<pid_t, int>& known, const std::string& job,
            rendezvous::Deadline deadline) {
  for (const pid_t relative : {::getpgid(pid), parent}) {
    if (const auto found = known.find(relative); found != known.end()) return found->second;
  }
  return rank_in(environment_in_time(pid, deadline), job);
}

// "process 4711 (rsync)"
std::string named_processes(const std::vector<Leftover>& left) {
  std::string text = left.size() == 1 ? "process" : "processes";
  for (std::size_t i = 0; i < std::min(left.size(), kMostNamed); ++i) {
    text += fmt::format("{} {} ({})", i == 0 ? "" : ",", left[i].pid, left[i].name);
  }
  if (left.size() > kMostNamed) text += fmt::format(" and {} more", left.size() - kMostNamed);
  return text;
}

// The ranks that left these processes; empty if one of them is not known.
std::vector<int> ranks_of(const std::vector<Leftover>& left) {
  std::set<int> ranks;
  for (const Leftover& one : left) ranks.insert(one.rank);
  if (ranks.contains(-1)) return {};
  return {ranks.begin(), ranks.end()};
}

double as_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::vector<Leftover> find_leftovers(std::map<pid_t, int> ranks, const std::string& job) {
  constexpr std::chrono::seconds kMostReading{1};  // all environments together
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(kMostReading);
  std::vector<Leftover> left;
  for (const pid_t pid : processes_of_ranks()) {
    const ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
    if (!stat.is_alive()) continue;
    const int rank = rank_of(pid, stat.parent, ranks, job, deadline);
    if (rank >= 0) ranks[pid] = rank;  // its children come later
    left.push_back({.pid = pid, .name = stat.name, .rank = rank});
  }
  return left;
}

std::string still_runs(const std::vector<Leftover>& left) {
  const std::vector<int> ranks = ranks_of(left);
  const std::string who = ranks.empty() ? "all ranks" : rendezvous::rank_list(ranks);
  const bool is_one = ranks.size() == 1;
  return fmt::format("{} {} ended; {} {} still {}", who, is_one ? "has" : "have",
                     is_one ? "its" : "their", named_processes(left),
                     left.size() == 1 ? "runs" : "run");
}

std::string is_ended(const std::vector<Leftover>& left) {
  const std::vector<int> ranks = ranks_of(left);
  return fmt::format("{}, which {} left behind, {} ended", named_processes(left),
                     ranks.empty() ? "the ranks" : rendezvous::rank_list(ranks),
                     left.size() == 1 ? "is" : "are");
}

Lingering::Lingering(boost::asio::io_context& io, std::chrono::milliseconds time, Events events)
    : time_(time), events_(std::move(events)), timer_(io), left_(time) {}

void Lingering::begin() {
  if (time_.count() > 0) {
    wait();
    return;
  }
  is_over_ = true;
  events_.on_over();
}

void Lingering::wait() {
  const Clock::duration until_sentence = kSilence - (time_ - left_);
  since_ = Clock::now();
  timer_.expires_after(said_ ? left_ : std::min(left_, until_sentence));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopped_) return;
    left_ -= Clock::now() - since_;
    if (left_.count() <= 0) {
      is_over_ = true;
      events_.on_over();
      return;
    }
    said_ = true;
    report();
    wait();
  });
}

void Lingering::report() const {
  const std::vector<Leftover> left = events_.find();
  if (left.empty()) return;
  events_.on_sentence(fmt::format("{}; dlrun waits for {}, {:g} s at most (--linger)",
                                  still_runs(left), left.size() == 1 ? "it" : "them",
                                  as_seconds(time_)));
}

void Lingering::suspend() {
  if (stopped_) return;
  const Clock::time_point now = Clock::now();
  left_ -= now - since_;
  since_ = now;
  timer_.cancel();
}

void Lingering::resume() {
  if (!stopped_) wait();
}

void Lingering::stop() {
  stopped_ = true;
  timer_.cancel();
}

void Lingering::end() {
  if (stopped_) return;
  stop();
  const std::vector<Leftover> left = events_.find();
  if (left.empty()) return;
  std::string sentence = is_ended(left);
  if (is_over_) {
    sentence += fmt::format(" after {:g} s; --linger SECONDS waits longer", as_seconds(time_));
  }
  events_.on_sentence(sentence);
}

}  // namespace dl::launcher
