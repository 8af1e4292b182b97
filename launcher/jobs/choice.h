// Which jobs `dlrun kill JOB` means.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/jobs/view/job.h"

namespace dl::launcher::jobs {

struct Chosen {
  std::string host;  // the host that was asked
  JobView job;
};

// The dlruns that `word` names: a job's name, a dlrun's pid or an id. Agents are left out: they end
// with the dlrun that has started them. Throws kNotFound if there is none, with a sentence.
std::vector<Chosen> matches(const std::vector<HostJobs>& hosts, std::string_view word);

// For --all, which takes a name: if `word` is the name of a job, drops the dlruns that have it only
// as their pid.
void keep_namesakes(std::vector<Chosen>& chosen, std::string_view word);
// Why `word` names several jobs, "train names 2 jobs", and what to give instead.
std::string why_several(const std::vector<Chosen>& chosen, std::string_view word);

// True if all are dlruns of one job, one a node.
bool is_one_job(const std::vector<Chosen>& chosen);

// "train (dlrun 4711 on a)"
std::string name_of(const Chosen& chosen);

}  // namespace dl::launcher::jobs
