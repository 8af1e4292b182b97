// The resources that dlrun may use on its machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/bind/topology.h"
#include "launcher/plan/machine/gpus.h"

namespace dl::launcher {

struct Machine {
  std::string host;       // as the kernel names it
  std::vector<int> cpus;  // CPUs on which this process may run, ascending
  // CPU time that the control group grants, or the CPUs that SLURM has allocated on this node, if
  // they are fewer; nullopt: no limit.
  std::optional<double> quota;
  // GPUs that a rank would see. this_machine() leaves them out, because asking the driver takes
  // longer than a launch.
  std::vector<VisibleGpu> gpus = {};
  // The cores of `cpus`; this_machine() leaves them out, too.
  std::optional<Topology> topology = {};

  // CPUs or granted CPU time, whichever is less, at least 1.
  int usable_cores() const;
};

Machine this_machine();
// A Machine with `host` only.
std::string host_name();

}  // namespace dl::launcher
