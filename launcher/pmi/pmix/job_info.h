// What an MPI process is told of its job: its size, its ranks, and the host of each of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/pmi/pmix/info_list.h"
#include "launcher/pmi/pmix/nodes/node_space.h"

namespace dl::pmix {

// A job, as the server of one of its nodes sees it.
struct Job {
  std::string name;  // PMIx's namespace
  std::uint32_t size = 1;
  std::vector<std::uint32_t> apps = {1};  // ranks of each program; the first one's come first
  std::uint32_t node = 0;
  std::vector<Node> nodes = {};  // all of them
  std::filesystem::path folder;  // for the files of the server and of this node's ranks

  const Node& here() const { return nodes.at(node); }
  std::filesystem::path folder_of(std::uint32_t rank) const {
    return folder / "ranks" / std::to_string(rank);
  }
};

// Makes the folders of this node's ranks. Throws filesystem_error.
void make_folders(const Job& job);

// The keys of PMIx_server_register_nspace(). Throws kInternal if libpmix does not take the job.
void add_job_info(const Job& job, InfoList& list);

}  // namespace dl::pmix
