#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/jobs/view/job.h"

namespace dl::launcher::jobs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kJobWords[] = {"starting", "running", "stopped", "ending"};
constexpr std::string_view kRankWords[] = {"starting", "running", "in_operation", "stopped",
                                           "ended"};

// Throws out_of_range for another word.
template <typename Is, std::size_t N>
Is read_word(const Json& json, const std::string_view (&words)[N]) {
  const auto text = json.get<std::string>();
  const auto* const found = std::ranges::find(words, text);
  if (found == std::end(words)) throw std::out_of_range(text);
  return static_cast<Is>(found - words);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
template <typename T>
std::optional<T> read_or_null(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<T>());
}

Json json_of(const RankView& rank) {
  return {{"rank", rank.rank},
          {"pid", or_null(rank.pid)},
          {"state", word(rank.is)},
          {"ended", rank.ended.empty() ? Json() : Json(rank.ended)},
          {"operation", rank.operation.empty() ? Json() : Json(rank.operation)},
          {"operation_s", or_null(rank.operation_s)},
          {"waits_for", rank.waits_for}};
}

RankView read_rank(const Json& json) {
  return {.rank = json.at("rank").get<int>(),
          .pid = read_or_null<pid_t>(json.at("pid")),
          .is = read_word<RankView::Is>(json.at("state"), kRankWords),
          .ended = read_or_null<std::string>(json.at("ended")).value_or(""),
          .operation = read_or_null<std::string>(json.at("operation")).value_or(""),
          .operation_s = read_or_null<double>(json.at("operation_s")),
          .waits_for = json.at("waits_for").get<std::vector<int>>()};
}

Json json_of(const JobView& job) {
  Json ranks = Json::array();
  for (const RankView& rank : job.ranks) ranks.push_back(json_of(rank));
  return {{"id", job.id},
          {"job", job.name},
          {"pid", job.pid},
          {"host", job.host},
          {"is_agent", job.is_agent},
          {"node", or_null(job.node)},
          {"nodes", job.nodes},
          {"hosts", job.hosts},
          {"state", word(job.is)},
          {"began_ns", job.began_ns},
          {"attempt", job.attempt},
          {"program", job.program},
          {"log_dir", job.log_dir.empty() ? Json() : Json(job.log_dir)},
          {"ranks", std::move(ranks)}};
}

JobView read_job(const Json& json) {
  JobView job{.id = json.at("id").get<std::string>(),
              .name = json.at("job").get<std::string>(),
              .pid = json.at("pid").get<pid_t>(),
              .host = json.at("host").get<std::string>(),
              .is_agent = json.at("is_agent").get<bool>(),
              .node = read_or_null<int>(json.at("node")),
              .nodes = json.at("nodes").get<int>(),
              .hosts = json.at("hosts").get<std::vector<std::string>>(),
              .is = read_word<JobView::Is>(json.at("state"), kJobWords),
              .began_ns = json.at("began_ns").get<std::int64_t>(),
              .attempt = json.at("attempt").get<int>(),
              .program = json.at("program").get<std::vector<std::string>>(),
              .log_dir = read_or_null<std::string>(json.at("log_dir")).value_or(""),
              .ranks = {}};
  for (const Json& rank : json.at("ranks")) job.ranks.push_back(read_rank(rank));
  return job;
}

}  // namespace

std::string_view word(JobView::Is is) noexcept {
  return kJobWords[static_cast<std::size_t>(is)];
}

std::string_view word(RankView::Is is) noexcept {
  return kRankWords[static_cast<std::size_t>(is)];
}

Json json_of(const std::vector<HostJobs>& hosts) {
  Json all = Json::array();
  for (const HostJobs& host : hosts) {
    Json jobs = Json::array();
    for (const JobView& job : host.jobs) jobs.push_back(json_of(job));
    all.push_back({{"host", host.host},
                   {"error", host.error.empty() ? Json() : Json(host.error)},
                   {"jobs", std::move(jobs)}});
  }
  return {{"hosts", std::move(all)}};
}

std::optional<std::vector<HostJobs>> read_jobs(std::string_view text) {
  try {
    std::vector<HostJobs> hosts;
    const Json all = Json::parse(text);
    for (const Json& json : all.at("hosts")) {
      HostJobs host{.host = json.at("host").get<std::string>(),
                    .error = read_or_null<std::string>(json.at("error")).value_or(""),
                    .jobs = {}};
      for (const Json& job : json.at("jobs")) host.jobs.push_back(read_job(job));
      hosts.push_back(std::move(host));
    }
    return hosts;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

}  // namespace dl::launcher::jobs
