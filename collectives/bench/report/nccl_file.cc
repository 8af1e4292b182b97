// nccl-tests' JSON file (src/util.cu, version 3), for programs that read it, such as
// tools/analyze_perf_json.py. Omits the environment, which may hold secrets.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "collectives/bench/report/report.h"
#include "core/base/error.h"
#include "core/base/system/output.h"

namespace dl::collectives::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFileVersion = 3;

// nccl-tests writes booleans as text.
const char* truth(bool value) {
  return value ? "true" : "false";
}

Json nothing_or(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

class NcclFile final : public Report {
 public:
  explicit NcclFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "we")) {
    if (file_ == nullptr) throw_errno(errno, fmt::format("create {}", path));
  }
  ~NcclFile() override { std::fclose(file_); }
  NcclFile(const NcclFile&) = delete;
  NcclFile& operator=(const NcclFile&) = delete;

  void begin(const RunInfo& info) override {
    options_ = info.options;
    const Options& o = options_;
    Json devices = Json::array();
    for (const RankInfo& rank : info.who) {
      devices.push_back({{"rank", rank.rank},
                         {"group", 0},
                         {"pid", rank.pid},
                         {"hostname", rank.host.data()},
                         {"device", std::max(rank.device, 0)},
                         {"device_hex", rank.device < 0 ? fmt::format("cpus {}", cpu_list(rank))
                                                        : std::string(rank.uuid.data())},
                         {"device_info", rank.device < 0 ? rank.model.data() : rank.gpu.data()}});
    }
    Json config = {{"nthreads", 1},
                   {"ngpus", 1},
                   {"minimum_bytes", o.min_bytes},
                   {"maximum_bytes", o.max_bytes}};
    config[o.step_factor > 1 ? "step_factor" : "step_bytes"] =
        o.step_factor > 1 ? o.step_factor : o.step_bytes;
    config.update({{"warmup_iters", o.warmup},
                   {"iterations", o.iterations},
                   {"aggregated_iterations", o.aggregate},
                   {"validation", o.check},
                   {"graph", 0},
                   {"blocking_collectives", "true"},
                   {"per_iter_timing", truth(o.per_iteration)},
                   {"per_iter_skip", o.skip},
                   {"parallel_init", "false"},
                   {"devices", devices}});
    document_ = {{"version", kFileVersion},
                 {"start_time", time_of_day()},
                 {"args", info.command},
                 {"env", Json::array()},
                 {"nccl_version", info.nccl_version},
                 {"dlrun_backend", info.backend},
                 {"dlrun", library_versions()},
                 {"config", config},
                 {"results", Json::array()}};
  }

  void row(const Row& r) override {
    Json object = {{"size", r.bytes},
                   {"count", r.count},
                   {"type", table_name(r.dtype)},
                   {"redop", r.reduction},
                   {"root", std::to_string(r.root)}};
    object["out_of_place"] = half(r, r.out_of_place);
    object["in_place"] = half(r, r.in_place);
    const Result& shown = r.in_place ? *r.in_place : *r.out_of_place;
    object["actual_iterations"] = shown.iterations;
    object["experiment_name"] = options_.program;
    document_["results"].push_back(std::move(object));
  }

  void end(const Summary& s) override {
    document_["out_of_bounds"] = {{"count", s.wrong}, {"okay", truth(s.wrong == 0)}};
    document_["average_bus_bandwidth"] = {
        {"bandwidth", s.wrong > 0 ? Json(nullptr) : Json(s.bus_bandwidth)},
        {"okay", s.wanted_bandwidth ? truth(s.is_fast_enough()) : "unchecked"}};
    document_["errors"] = Json::array();
    document_["end_time"] = time_of_day();
    const std::string text = document_.dump(1) + "\n";
    std::fwrite(text.data(), 1, text.size(), file_);
    require_written(file_, path_);
  }

 private:
  Json half(const Row& row, const std::optional<Result>& r) const {
    if (!r) return nullptr;
    return {{options_.call_time ? "cpu_time" : "time",
             options_.call_time ? r->call_us : time_of(options_, *r)},
            {"alg_bw", nothing_or(algorithm_bandwidth(row, *r))},
            {"bus_bw", nothing_or(bus_bandwidth(row, *r))},
            {"nwrong", options_.check > 0 ? Json(r->wrong) : Json(nullptr)}};
  }

  std::string path_;
  std::FILE* file_;
  Options options_{};
  Json document_;
};

}  // namespace

std::unique_ptr<Report> make_nccl_file(const std::string& path) {
  return std::make_unique<NcclFile>(path);
}

}  // namespace dl::collectives::bench
