// SLURM's configuration file. dlrun reads it itself: otherwise every node of a large job would ask
// SLURM's controller.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

// The path: $SLURM_CONF, else /etc/slurm/slurm.conf, else the file that slurmd got from the
// controller. Empty if this node has none of them, or none can be read.
std::string read_slurm_conf();

// The last value of a setting: "auth/munge". The setting's name may have any case. The output of
// `scontrol show config` is such a text, too. nullopt: the text does not name it.
std::optional<std::string> setting_in(std::string_view slurm_conf, std::string_view name);

// munged's socket: "/run/x" for "AuthInfo=socket=/run/x,cred_expire=5". Empty if the file does not
// name it.
std::string munge_socket_in(std::string_view slurm_conf);

// Returns false if SLURM's daemons trust each other by another means than MUNGE, which is the
// default.
bool may_use_munge(std::string_view slurm_conf);

// Returns false if SLURM binds no task to CPUs: then srun prints a warning if it is given
// --cpu-bind. Returns true also if the text is empty or includes other files.
bool may_bind_tasks(std::string_view slurm_conf);

}  // namespace dl::launcher
