// The families of checks of one host. `root` stands for "/"; `ranks`: of this host.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/checks/check.h"
#include "launcher/doctor/checks/packages.h"

namespace dl::launcher::doctor {

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct Limit {
  std::uint64_t soft = kNoLimit;
  std::uint64_t hard = kNoLimit;
};
struct LimitFacts {
  int ranks = 1;
  bool is_root = false;
  Limit open_files = {};
  Limit processes = {};
  Limit locked_memory = {};
  Limit address_space = {};
  Limit file_size = {};
  std::uint64_t pids_max = kNoLimit;  // of the control group
  bool has_rdma = false;
  bool has_gpu = false;
};
LimitFacts read_limits(const std::string& root, int ranks);
Checks check_limits(const LimitFacts& facts);

struct MemoryFacts {
  int ranks = 1;
  struct Shm {
    bool is_writable = true;
    std::uint64_t bytes = 0;
    std::uint64_t free = 0;
  };
  std::optional<Shm> shm = {};                  // nullopt: there is no /dev/shm
  std::optional<std::uint64_t> available = {};  // MemAvailable
  std::optional<std::uint64_t> cgroup_left = {};
  std::optional<std::string> huge_pages = {};  // "always [madvise] never"
};
MemoryFacts read_memory(const std::string& root, int ranks);
Checks check_memory(const MemoryFacts& facts);

struct CpuFacts {
  int ranks = 1;
  int usable = 1;  // CPUs on which this process may run
  int online = 1;
  std::optional<double> quota = {};
  std::map<std::string, int> governors = {};        // CPUs of each
  std::optional<std::string> omp_num_threads = {};  // nullopt: not set, or empty
  std::vector<std::string> omp_places =
      {};  // variables that place OpenMP's threads: "OMP_PROC_BIND"
};
CpuFacts read_cpus(const std::string& root, int ranks);
Checks check_cpus(const CpuFacts& facts);

struct DiskFacts {
  std::string path = {};   // of the logs
  std::string error = {};  // it cannot be looked at; empty: it can
  std::string type = {};   // "ext4", "nfs"; empty: not known by name
  bool is_of_network = false;
  bool is_writable = true;
  std::uint64_t free = kNoLimit;        // bytes
  std::uint64_t files_free = kNoLimit;  // inodes
};
DiskFacts read_disk(const std::string& path);
Checks check_disk(const DiskFacts& facts);

struct NetworkFacts {
  struct Interface {
    std::string name = {};
    bool is_up = false;
    std::optional<int> mtu = {};
    std::optional<int> speed = {};  // Mb/s
  };
  std::vector<Interface> interfaces = {};  // without the loopback
  struct Name {
    std::string name = {};
    std::vector<std::string> addresses = {};  // empty: not found
    double seconds = 0;                       // to find it
    bool is_of_other_host = false;
  };
  std::vector<Name> names = {};              // of this host, and of its peers
  std::optional<bool> is_clock_synced = {};  // nullopt: the kernel does not say
};
// `peers`: names of other hosts. Runs `getent`.
NetworkFacts read_network(const std::string& root, const std::vector<std::string>& peers);
Checks check_network(const NetworkFacts& facts);

struct ProgramFacts {
  std::string ssh = {};                   // paths; empty: not found
  std::string python = {};                // dlrun's choice for .py programs
  std::vector<std::string> missing = {};  // dlrun's own helpers that are not beside it
  PackageManager packages = PackageManager::kOther;
  // A helper that only some hosts need.
  struct Helper {
    bool is_there = false;
    bool is_needed = false;
  };
  Helper slurm_helper = {};  // dlrun-srun
  Helper pmix_helper = {};   // dlrun-pmix
  bool has_slurm = false;
  bool has_munge_socket = false;
  std::optional<std::int64_t> ptrace_scope = {};
};
ProgramFacts read_programs(const std::string& root);
Checks check_programs(const ProgramFacts& facts);

struct GpuFacts {
  int gpus = 0;             // on the PCI bus
  std::string driver = {};  // its version; empty: not loaded
  std::string error = {};   // of the process that loaded the libraries; empty: none
  int cuda_driver = 0;      // highest CUDA version of the driver: 13000; 0: libcuda was not loaded
  int cudart = 0;           // version of the CUDA runtime; 0: not found
  int nccl = 0;             // 22809; 0: not found
  int nccl_cuda = 0;        // major version of CUDA for which NCCL was made; 0: not known
  PackageManager packages = PackageManager::kOther;
};
GpuFacts read_gpu(const std::string& root);
Checks check_gpu(const GpuFacts& facts);

}  // namespace dl::launcher::doctor
