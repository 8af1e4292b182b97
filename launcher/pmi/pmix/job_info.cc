#include "launcher/pmi/pmix/job_info.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <numeric>
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

void add_rank_info(const Job& job, std::uint32_t rank, InfoList& list) {
  const auto on_node = static_cast<std::uint16_t>(rank);
  InfoList values;
  values.add_rank(PMIX_RANK, rank);
  values.add_rank(PMIX_GLOBAL_RANK, rank);
  values.add_rank(PMIX_APP_RANK, rank);
  values.add(PMIX_APPNUM, std::uint32_t{0});
  values.add(PMIX_LOCAL_RANK, on_node);
  values.add(PMIX_NODE_RANK, on_node);
  values.add(PMIX_NODEID, std::uint32_t{0});
  values.add(PMIX_HOSTNAME, job.host);
  values.add(PMIX_PROCDIR, job.folder_of(rank).string());
  list.add_list(PMIX_PROC_DATA, values);
}

}  // namespace

void make_folders(const Job& job) {
  for (std::uint32_t rank = 0; rank < job.size; ++rank) {
    std::filesystem::create_directories(job.folder_of(rank));
  }
}

void add_job_info(const Job& job, InfoList& list) {
  std::vector<std::uint32_t> ranks(job.size);
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::string peers = fmt::format("{}", fmt::join(ranks, ","));
  list.add(PMIX_JOBID, job.name);
  list.add(PMIX_UNIV_SIZE, job.size);
  list.add(PMIX_JOB_SIZE, job.size);
  list.add(PMIX_MAX_PROCS, job.size);
  list.add(PMIX_JOB_NUM_APPS, std::uint32_t{1});
  list.add(PMIX_NUM_NODES, std::uint32_t{1});
  list.add(PMIX_NODE_MAP, compressed(PMIx_generate_regex, job.host).get(), PMIX_REGEX);
  list.add(PMIX_PROC_MAP, compressed(PMIx_generate_ppn, peers).get(), PMIX_REGEX);
  list.add(PMIX_NODEID, std::uint32_t{0});
  list.add(PMIX_HOSTNAME, job.host);
  list.add(PMIX_LOCAL_SIZE, job.size);
  list.add(PMIX_NODE_SIZE, job.size);
  list.add(PMIX_LOCAL_PEERS, peers);
  list.add_rank(PMIX_LOCALLDR, 0);
  // Open MPI makes no folders of its own in /tmp then.
  list.add(PMIX_TMPDIR, job.folder.string());
  list.add(PMIX_NSDIR, (job.folder / "ranks").string());
  list.add(PMIX_TDIR_RMCLEAN, true);
  for (std::uint32_t rank = 0; rank < job.size; ++rank) add_rank_info(job, rank, list);
}

}  // namespace dl::pmix
