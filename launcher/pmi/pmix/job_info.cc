#include "launcher/pmi/pmix/job_info.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "core/base/error.h"

namespace dl::pmix {
namespace {

using CText = std::unique_ptr<char, decltype(&std::free)>;

// libpmix's own form of a list of hosts, or of each host's ranks.
CText compressed(pmix_status_t (*compress)(const char*, char**), const std::string& list) {
  char* text = nullptr;
  const pmix_status_t status = compress(list.c_str(), &text);
  DL_CHECK(status == PMIX_SUCCESS, kInternal, "libpmix does not take the list {}: {}", list,
           PMIx_Error_string(status));
  return {text, &std::free};
}

// A program of the job, and the first of its ranks.
struct Place {
  std::uint32_t app = 0;
  std::uint32_t first = 0;
};
Place place_of(const Job& job, std::uint32_t rank) {
  Place place;
  while (place.app + 1 < job.apps.size() && rank >= place.first + job.apps[place.app]) {
    place.first += job.apps[place.app++];
  }
  return place;
}

void add_ranks(const Job& job, std::uint32_t node, InfoList& list) {
  const std::vector<std::uint32_t>& ranks = job.nodes[node].ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto on_node = static_cast<std::uint16_t>(i);
    const Place place = place_of(job, ranks[i]);
    InfoList values;
    values.add_rank(PMIX_RANK, ranks[i]);
    values.add_rank(PMIX_GLOBAL_RANK, ranks[i]);
    values.add_rank(PMIX_APP_RANK, ranks[i] - place.first);
    values.add_rank(PMIX_APPLDR, place.first);
    values.add(PMIX_APPNUM, place.app);
    values.add(PMIX_LOCAL_RANK, on_node);
    values.add(PMIX_NODE_RANK, on_node);
    values.add(PMIX_NODEID, node);
    values.add(PMIX_HOSTNAME, job.nodes[node].host);
    if (node == job.node) values.add(PMIX_PROCDIR, job.folder_of(ranks[i]).string());
    list.add_list(PMIX_PROC_DATA, values);
  }
}

// What Open MPI 5 puts into MPI_INFO_ENV.
void add_apps(const Job& job, InfoList& list) {
  std::vector<std::uint32_t> firsts;
  std::uint32_t first = 0;
  for (const std::uint32_t ranks : job.apps) {
    firsts.push_back(first);
    first += ranks;
  }
  list.add("OMPI_APP_SIZES", fmt::format("{}", fmt::join(job.apps, " ")));
  list.add("OMPI_FIRST_RANKS", fmt::format("{}", fmt::join(firsts, " ")));
}

}  // namespace

void make_folders(const Job& job) {
  for (const std::uint32_t rank : job.here().ranks) {
    std::filesystem::create_directories(job.folder_of(rank));
  }
}

void add_job_info(const Job& job, InfoList& list) {
  const auto of_node = static_cast<std::uint32_t>(job.here().ranks.size());
  std::vector<std::string> hosts;
  std::vector<std::string> peers;
  for (const Node& node : job.nodes) {
    hosts.push_back(node.host);
    peers.push_back(fmt::format("{}", fmt::join(node.ranks, ",")));
  }
  const std::string all_hosts = fmt::format("{}", fmt::join(hosts, ","));
  const std::string all_peers = fmt::format("{}", fmt::join(peers, ";"));
  list.add(PMIX_JOBID, job.name);
  list.add(PMIX_UNIV_SIZE, job.size);
  list.add(PMIX_JOB_SIZE, job.size);
  list.add(PMIX_MAX_PROCS, job.size);
  list.add(PMIX_JOB_NUM_APPS, static_cast<std::uint32_t>(job.apps.size()));
  list.add(PMIX_NUM_NODES, static_cast<std::uint32_t>(job.nodes.size()));
  list.add(PMIX_NODE_MAP, compressed(PMIx_generate_regex, all_hosts).get(), PMIX_REGEX);
  list.add(PMIX_PROC_MAP, compressed(PMIx_generate_ppn, all_peers).get(), PMIX_REGEX);
  list.add(PMIX_NODEID, job.node);
  list.add(PMIX_HOSTNAME, job.here().host);
  list.add(PMIX_LOCAL_SIZE, of_node);
  list.add(PMIX_NODE_SIZE, of_node);
  list.add(PMIX_LOCAL_PEERS, peers.at(job.node));
  list.add_rank(PMIX_LOCALLDR, job.here().ranks.front());
  // Open MPI makes no folders of its own in /tmp then.
  list.add(PMIX_TMPDIR, job.folder.string());
  list.add(PMIX_NSDIR, (job.folder / "ranks").string());
  list.add(PMIX_TDIR_RMCLEAN, true);
  add_apps(job, list);
  for (std::uint32_t node = 0; node < job.nodes.size(); ++node) add_ranks(job, node, list);
}

}  // namespace dl::pmix
