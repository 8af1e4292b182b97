// SLURM's configuration file. dlrun reads it, because every node of a large job would ask SLURM's
// controller.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

// $SLURM_CONF, else /etc/slurm/slurm.conf, else the file that slurmd got from the controller.
// Empty: none of them is on this node, or can be read.
std::string read_slurm_conf();

// The last value of a setting, whose name has any case: "auth/munge". The output of `scontrol show
// config` is such a text, too. nullopt: the text does not name it.
std::optional<std::string> setting_in(std::string_view slurm_conf, std::string_view name);

// munged's socket: "/run/x" of "AuthInfo=socket=/run/x,cred_expire=5". Empty: the file does not
// say.
std::string munge_socket_in(std::string_view slurm_conf);

// False: SLURM's daemons trust each other by another means than MUNGE, which is the default.
bool may_use_munge(std::string_view slurm_conf);

// False: SLURM binds no task to CPUs, and srun prints a warning if it is given --cpu-bind. True
// also if the text is empty or includes other files.
bool may_bind_tasks(std::string_view slurm_conf);

}  // namespace dl::launcher
