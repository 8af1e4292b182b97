// What an MPI process is told of its job: its size, its ranks, and the host of each of them.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/pmi/pmix/info_list.h"

namespace dl::pmix {

// A job on one node, whose ranks are 0 to size - 1.
struct Job {
  std::string name;  // PMIx's namespace
  std::uint32_t size = 1;
  std::string host;
  std::filesystem::path folder;  // for the files of the server and of the ranks

  std::filesystem::path folder_of(std::uint32_t rank) const {
    return folder / "ranks" / std::to_string(rank);
  }
};

// Makes the folders of the ranks. Throws filesystem_error.
void make_folders(const Job& job);

// The keys of PMIx_server_register_nspace(). Throws kInternal if libpmix does not take the job.
void add_job_info(const Job& job, InfoList& list);

}  // namespace dl::pmix
