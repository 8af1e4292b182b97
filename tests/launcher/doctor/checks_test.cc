// Each check of `dlrun doctor`, in order and not in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/doctor/checks/families.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher::doctor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Check& named(const Checks& checks, const std::string& name) {
  static const Check kNone{.name = "none", .found = "", .verdict = Verdict::kUnknown};
  const auto found = std::ranges::find(checks, name, &Check::name);
  if (found == checks.end()) {
    ADD_FAILURE() << "there is no check " << name;
    return kNone;
  }
  // What is not in order has a reason.
  EXPECT_EQ(found->verdict == Verdict::kOk, found->why.empty()) << name;
  // A remark beside a command would end in a shell.
  EXPECT_EQ(found->mend.find("   ("), std::string::npos) << found->mend;
  EXPECT_TRUE(found->verdict == Verdict::kOk || found->verdict == Verdict::kUnknown ||
              !found->mend.empty())
      << name;
  return *found;
}

Verdict verdict_of(const Checks& checks, const std::string& name) {
  return named(checks, name).verdict;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

TEST(DoctorLimits, OfOpenFilesMustHoldAllRanks) {
  const std::string name = "open files (ulimit -n)";
  LimitFacts facts{.ranks = 8, .open_files = {4096, 4096}};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kOk);
  facts.open_files = {256, 4096};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWarn);
  EXPECT_EQ(named(check_limits(facts), name).mend, "ulimit -n 4096");
  facts.open_files = {64, 64};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWrong);
  EXPECT_THAT(named(check_limits(facts), name).mend, HasSubstr("nofile 65536"));
  // Ranks have descriptors with high numbers, even if they are few.
  facts = {.ranks = 2, .open_files = {193, 193}};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWrong);
  EXPECT_THAT(named(check_limits(facts), name).why, HasSubstr("dlrun needs 194 for 2 ranks"));
  facts.open_files = {194, 194};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWarn);
}

TEST(DoctorLimits, OfProcessesCountTheControlGroupToo) {
  const std::string name = "processes and threads (ulimit -u)";
  LimitFacts facts{.ranks = 8, .processes = {1000, 1000}};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kOk);
  facts.processes = {100, 1000};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWarn);
  facts.processes = {1000, 1000};
  facts.pids_max = 20;
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWrong);
  EXPECT_THAT(named(check_limits(facts), name).mend, HasSubstr("pids.max"));
}

TEST(DoctorLimits, OfLockedMemoryMatterToInfiniBand) {
  const std::string name = "locked memory (ulimit -l)";
  LimitFacts facts{.locked_memory = {8 * kMiB, kNoLimit}};
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kOk);
  facts.has_rdma = true;
  EXPECT_EQ(verdict_of(check_limits(facts), name), Verdict::kWrong);
  EXPECT_EQ(named(check_limits(facts), name).mend, "ulimit -l unlimited");
}

TEST(DoctorLimits, OfAddressSpaceAndFilesAreBetterNotThere) {
  LimitFacts facts{.address_space = {kGiB, kNoLimit}, .file_size = {kGiB, kNoLimit}};
  EXPECT_EQ(verdict_of(check_limits(facts), "address space (ulimit -v)"), Verdict::kWarn);
  EXPECT_EQ(verdict_of(check_limits(facts), "file size (ulimit -f)"), Verdict::kWarn);
  facts.has_gpu = true;
  facts.file_size = {1024, 1024};
  EXPECT_EQ(verdict_of(check_limits(facts), "address space (ulimit -v)"), Verdict::kWrong);
  EXPECT_THAT(named(check_limits(facts), "file size (ulimit -f)").why,
              HasSubstr("no flight recorders"));
  facts.file_size = {0, 0};
  EXPECT_EQ(verdict_of(check_limits(facts), "file size (ulimit -f)"), Verdict::kWrong);
}

TEST(DoctorLimits, AreRaisedByCommandsThatDoNotUndoEachOther) {
  LimitFacts facts{.open_files = {64, 64}, .file_size = {0, 0}};
  const auto mend = [&](const std::string& name) { return named(check_limits(facts), name).mend; };
  EXPECT_EQ(mend("open files (ulimit -n)"),
            "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/dlrun-nofile.conf");
  EXPECT_EQ(mend("file size (ulimit -f)"),
            "echo '* - fsize unlimited' | sudo tee /etc/security/limits.d/dlrun-fsize.conf");
  EXPECT_THAT(named(check_limits(facts), "open files (ulimit -n)").why,
              HasSubstr("counts from the next login"));
  facts.is_root = true;
  EXPECT_EQ(mend("open files (ulimit -n)"),
            "echo 'root - nofile 65536' | sudo tee /etc/security/limits.d/dlrun-nofile.conf");
}

TEST(DoctorLimits, AreThoseOfThisProcess) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const LimitFacts facts = read_limits("/nowhere", 3);
  EXPECT_EQ(facts.open_files.soft, files.rlim_cur);
  EXPECT_EQ(facts.ranks, 3);
  EXPECT_FALSE(facts.has_gpu);
}

TEST(DoctorMemory, WantsRoomInSharedMemory) {
  MemoryFacts facts{.ranks = 4, .shm = MemoryFacts::Shm{.bytes = 8 * kGiB, .free = 8 * kGiB}};
  EXPECT_EQ(verdict_of(check_memory(facts), "/dev/shm"), Verdict::kOk);
  facts.shm = {.bytes = 512 * kMiB, .free = 512 * kMiB};
  EXPECT_EQ(verdict_of(check_memory(facts), "/dev/shm"), Verdict::kWarn);
  facts.shm = {.bytes = 64 * kMiB, .free = 60 * kMiB};  // docker's default
  EXPECT_EQ(verdict_of(check_memory(facts), "/dev/shm"), Verdict::kWrong);
  EXPECT_THAT(named(check_memory(facts), "/dev/shm").why, HasSubstr("--shm-size"));
  facts.shm = {.is_writable = false, .bytes = 8 * kGiB, .free = 8 * kGiB};
  EXPECT_EQ(verdict_of(check_memory(facts), "/dev/shm"), Verdict::kWrong);
  facts.shm.reset();
  EXPECT_EQ(verdict_of(check_memory(facts), "/dev/shm"), Verdict::kWrong);
}

TEST(DoctorMemory, IsSharedByTheRanks) {
  MemoryFacts facts{.ranks = 4, .available = 64 * kGiB, .cgroup_left = 64 * kGiB};
  const std::string group = "memory of the control group";
  EXPECT_EQ(verdict_of(check_memory(facts), "memory"), Verdict::kOk);
  EXPECT_EQ(verdict_of(check_memory(facts), group), Verdict::kOk);
  facts.cgroup_left = 2 * kGiB;
  EXPECT_EQ(verdict_of(check_memory(facts), group), Verdict::kWarn);
  facts.cgroup_left = 100 * kMiB;
  EXPECT_EQ(verdict_of(check_memory(facts), group), Verdict::kWrong);
  facts.available = 100 * kMiB;
  EXPECT_EQ(verdict_of(check_memory(facts), "memory"), Verdict::kWrong);
  facts.available.reset();
  EXPECT_EQ(verdict_of(check_memory(facts), "memory"), Verdict::kUnknown);
}

TEST(DoctorMemory, WantsHugePagesThatProgramsCanAskFor) {
  const std::string name = "transparent huge pages";
  EXPECT_EQ(verdict_of(check_memory({.huge_pages = "always [madvise] never"}), name), Verdict::kOk);
  EXPECT_EQ(verdict_of(check_memory({.huge_pages = "always madvise [never]"}), name),
            Verdict::kWarn);
  EXPECT_EQ(verdict_of(check_memory({}), name), Verdict::kUnknown);
}

TEST(DoctorMemory, IsReadBelowARoot) {
  const tests::TempDir root;
  write(root.path() + "/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB");
  write(root.path() + "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  write(root.path() + "/proc/self/cgroup", "0::/");
  write(root.path() + "/sys/fs/cgroup/memory.max", "1048576");
  write(root.path() + "/sys/fs/cgroup/memory.current", "0");
  const MemoryFacts facts = read_memory(root.path(), 1);
  EXPECT_EQ(facts.available, 2 * kMiB);
  EXPECT_EQ(facts.cgroup_left, kMiB);
  EXPECT_FALSE(facts.shm);
  EXPECT_EQ(verdict_of(check_memory(facts), "transparent huge pages"), Verdict::kWarn);
}

TEST(DoctorCpus, AreEnoughForTheRanks) {
  const std::string cpus = "CPUs of this process";
  const std::string quota = "CPU quota of the control group";
  CpuFacts facts{.ranks = 4, .usable = 8, .online = 8};
  EXPECT_EQ(verdict_of(check_cpus(facts), cpus), Verdict::kOk);
  EXPECT_EQ(verdict_of(check_cpus(facts), quota), Verdict::kOk);
  facts.usable = 2;
  EXPECT_EQ(verdict_of(check_cpus(facts), cpus), Verdict::kWarn);
  facts.quota = 1.5;
  EXPECT_EQ(verdict_of(check_cpus(facts), quota), Verdict::kWarn);
  EXPECT_EQ(named(check_cpus(facts), quota).found, "1.5 CPUs");
}

TEST(DoctorCpus, RunAtTheirFullFrequency) {
  const std::string name = "CPU frequency governor";
  EXPECT_EQ(verdict_of(check_cpus({.governors = {{"performance", 8}}}), name), Verdict::kOk);
  EXPECT_EQ(verdict_of(check_cpus({.governors = {{"performance", 7}, {"powersave", 1}}}), name),
            Verdict::kWarn);
  const tests::TempDir root;
  const std::string cpu = root.path() + "/sys/devices/system/cpu/cpu";
  write(cpu + "0/cpufreq/scaling_governor", "powersave");
  write(cpu + "0/cpufreq/scaling_driver", "acpi-cpufreq");
  EXPECT_EQ(verdict_of(check_cpus(read_cpus(root.path(), 1)), name), Verdict::kWarn);
  write(cpu + "0/cpufreq/scaling_driver", "intel_pstate");
  EXPECT_EQ(verdict_of(check_cpus(read_cpus(root.path(), 1)), name), Verdict::kOk);
}

TEST(DoctorCpus, HaveAsManyThreadsAsTheyCanRun) {
  const std::string name = "OMP_NUM_THREADS";
  CpuFacts facts{.ranks = 4, .usable = 8, .online = 8};
  EXPECT_EQ(verdict_of(check_cpus(facts), name), Verdict::kOk);
  facts.omp_num_threads = "2";
  EXPECT_EQ(verdict_of(check_cpus(facts), name), Verdict::kOk);
  facts.omp_num_threads = "8";
  EXPECT_EQ(verdict_of(check_cpus(facts), name), Verdict::kWarn);
  facts.omp_num_threads = "1";
  EXPECT_THAT(named(check_cpus(facts), name).why, HasSubstr("idle"));
}

TEST(DoctorCpus, TakeTheThreadsThatOpenMpTakes) {
  const auto check = [](const std::string& value) {
    const CpuFacts facts{.ranks = 4, .usable = 8, .online = 8, .omp_num_threads = value};
    return named(check_cpus(facts), "OMP_NUM_THREADS");
  };
  for (const char* good : {"2", " 2", "2 ", "+2", "2,1", " 2 , 1"}) {
    EXPECT_EQ(check(good).verdict, Verdict::kOk) << good;
    EXPECT_EQ(check(good).found, good);
  }
  for (const char* bad : {"abc", "0", "-1", "2,", ",2", "2,0", "2x", " ", "99999999999999999999"}) {
    EXPECT_EQ(check(bad).verdict, Verdict::kWarn) << bad;
    EXPECT_THAT(check(bad).why, HasSubstr("OpenMP ignores it")) << bad;
  }
  EXPECT_THAT(check("99999999999999").why, HasSubstr("want more than 8 CPUs"));
}

TEST(DoctorCpus, AreNotSharedBecauseOfOpenMpsPlaces) {
  CpuFacts facts{.ranks = 2, .usable = 8, .online = 8, .omp_places = {"OMP_PROC_BIND"}};
  EXPECT_EQ(verdict_of(check_cpus(facts), "OpenMP's places"), Verdict::kWarn);
  facts.ranks = 1;
  EXPECT_EQ(verdict_of(check_cpus(facts), "OpenMP's places"), Verdict::kOk);
}

TEST(DoctorDisk, HasRoomForLogs) {
  const std::string name = "disk of --log-dir";
  const DiskFacts good{.path = "log", .type = "ext4", .free = 100 * kGiB, .files_free = 1'000'000};
  const auto verdict = [&](auto change) {
    DiskFacts facts = good;
    change(facts);
    return verdict_of(check_disk(facts), name);
  };
  EXPECT_EQ(verdict([](DiskFacts&) {}), Verdict::kOk);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.free = 500 * kMiB; }), Verdict::kWarn);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.files_free = 10; }), Verdict::kWarn);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.files_free = 0; }), Verdict::kWrong);
  DiskFacts without_inodes = good;
  without_inodes.files_free = 0;
  EXPECT_EQ(named(check_disk(without_inodes), name).found,
            "log: ext4, 100.0 GiB free, no inodes free");
  EXPECT_EQ(verdict([](DiskFacts& f) { f.is_of_network = true; }), Verdict::kWarn);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.free = 0; }), Verdict::kWrong);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.is_writable = false; }), Verdict::kWrong);
  EXPECT_EQ(verdict([](DiskFacts& f) { f.error = "No such file"; }), Verdict::kWrong);
}

TEST(DoctorDisk, IsThatOfTheNearestFolder) {
  const tests::TempDir folder;
  EXPECT_EQ(read_disk(folder.path() + "/a/b/c").error, "");
  EXPECT_GT(read_disk(folder.path() + "/a/b/c").free, 0U);
  write(folder.path() + "/file", "");
  EXPECT_THAT(read_disk(folder.path() + "/file/logs").error, HasSubstr("is no folder"));
}

TEST(DoctorNetwork, HasAFastInterface) {
  NetworkFacts facts{.interfaces = {{.name = "eth0", .is_up = true, .mtu = 1500, .speed = 10'000}}};
  EXPECT_EQ(verdict_of(check_network(facts), "interface eth0"), Verdict::kOk);
  facts.interfaces[0].speed = 100;
  EXPECT_THAT(named(check_network(facts), "interface eth0").why, HasSubstr("take 8 s"));
  facts.interfaces[0] = {.name = "eth0", .is_up = true, .mtu = 1280, .speed = {}};
  EXPECT_EQ(verdict_of(check_network(facts), "interface eth0"), Verdict::kWarn);
  facts.interfaces[0] = {.name = "eth0", .is_up = true, .mtu = 1500, .speed = 100'000};
  EXPECT_EQ(named(check_network(facts), "interface eth0").mend, "sudo ip link set eth0 mtu 9000");
  EXPECT_THAT(named(check_network(facts), "interface eth0").why, HasSubstr("all switches"));
  facts.interfaces[0].is_up = false;
  EXPECT_EQ(verdict_of(check_network(facts), "interfaces"), Verdict::kWarn);
}

TEST(DoctorNetwork, IsReadBelowARoot) {
  const tests::TempDir root;
  const std::string net = root.path() + "/sys/class/net/";
  for (const char* name : {"lo", "eth1", "eth0"}) write(net + name + "/mtu", "1500");
  write(net + "eth0/operstate", "up");
  write(net + "eth0/speed", "-1");
  const NetworkFacts facts = read_network(root.path(), {});
  ASSERT_EQ(facts.interfaces.size(), 2U);
  EXPECT_EQ(facts.interfaces[0].name, "eth0");
  EXPECT_TRUE(facts.interfaces[0].is_up);
  EXPECT_FALSE(facts.interfaces[0].speed);
  EXPECT_FALSE(facts.interfaces[1].is_up);
}

TEST(DoctorNetwork, FindsNames) {
  const auto checked = [](NetworkFacts::Name name) {
    const std::string title =
        name.is_of_other_host ? "name of host " + name.name : "name of this host";
    return verdict_of(check_network({.names = {name}}), title);
  };
  EXPECT_EQ(checked({.name = "a", .addresses = {"10.0.0.1"}}), Verdict::kOk);
  EXPECT_EQ(checked({.name = "a"}), Verdict::kWarn);
  EXPECT_EQ(checked({.name = "a", .addresses = {"127.0.1.1"}}), Verdict::kWarn);
  EXPECT_EQ(checked({.name = "a", .addresses = {"10.0.0.1"}, .seconds = 3}), Verdict::kWarn);
  EXPECT_EQ(checked({.name = "b", .addresses = {"10.0.0.2"}, .is_of_other_host = true}),
            Verdict::kOk);
  EXPECT_EQ(checked({.name = "b", .is_of_other_host = true}), Verdict::kWarn);
  EXPECT_EQ(checked({.name = "b", .addresses = {"127.0.1.1"}, .is_of_other_host = true}),
            Verdict::kWarn);
  const NetworkFacts read = read_network("", {"no-such-host.invalid"});
  ASSERT_EQ(read.names.size(), 2U);
  EXPECT_TRUE(read.names[1].addresses.empty());
}

TEST(DoctorNetwork, HasASynchronisedClock) {
  EXPECT_EQ(verdict_of(check_network({.is_clock_synced = true}), "clock"), Verdict::kOk);
  EXPECT_EQ(verdict_of(check_network({.is_clock_synced = false}), "clock"), Verdict::kWarn);
  EXPECT_EQ(verdict_of(check_network({}), "clock"), Verdict::kUnknown);
}

TEST(DoctorPrograms, AreFound) {
  const ProgramFacts good{.ssh = "/usr/bin/ssh",
                          .python = "/usr/bin/python3",
                          .has_slurm = true,
                          .has_munge_socket = true};
  const auto verdict = [&](const std::string& name, auto change) {
    ProgramFacts facts = good;
    change(facts);
    return verdict_of(check_programs(facts), name);
  };
  for (const Check& check : check_programs(good)) EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_EQ(verdict("ssh", [](ProgramFacts& f) { f.ssh.clear(); }), Verdict::kWarn);
  EXPECT_EQ(verdict("Python", [](ProgramFacts& f) { f.python.clear(); }), Verdict::kWarn);
  EXPECT_EQ(verdict("dlrun's helpers", [](ProgramFacts& f) { f.missing = {"dlrun-rendezvous"}; }),
            Verdict::kWrong);
  EXPECT_EQ(verdict("dlrun-srun", [](ProgramFacts& f) { f.slurm_helper.is_needed = true; }),
            Verdict::kWarn);
  EXPECT_EQ(verdict("dlrun-pmix", [](ProgramFacts& f) { f.pmix_helper.is_needed = true; }),
            Verdict::kWarn);
  EXPECT_EQ(verdict("dlrun-pmix", [](ProgramFacts& f) { f.pmix_helper = {true, true}; }),
            Verdict::kOk);
  EXPECT_EQ(verdict("MUNGE", [](ProgramFacts& f) { f.has_munge_socket = false; }), Verdict::kWarn);
  EXPECT_EQ(verdict("MUNGE", [](ProgramFacts& f) { f.has_slurm = f.has_munge_socket = false; }),
            Verdict::kOk);
  EXPECT_EQ(verdict("ptrace scope", [](ProgramFacts& f) { f.ptrace_scope = 1; }), Verdict::kWarn);
  EXPECT_EQ(verdict("ptrace scope", [](ProgramFacts& f) { f.ptrace_scope = 0; }), Verdict::kOk);
}

TEST(DoctorPrograms, MungesSocketIsWhereSlurmSaysSo) {
  const tests::TempDir root;
  std::ofstream(root.path() + "/munge.socket");
  std::ofstream(root.path() + "/slurm.conf") << "AuthInfo=socket=/munge.socket\n";
  EXPECT_FALSE(read_programs(root.path()).has_munge_socket);
  ::setenv("SLURM_CONF", (root.path() + "/slurm.conf").c_str(), 1);
  EXPECT_TRUE(read_programs(root.path()).has_munge_socket);
  std::ofstream(root.path() + "/slurm.conf") << "AuthInfo=socket=/another.socket\n";
  EXPECT_FALSE(read_programs(root.path()).has_munge_socket);
  ::unsetenv("SLURM_CONF");
}

TEST(DoctorPackages, AreInstalledAsTheDistributionDoes) {
  struct Case {
    std::string os_release;
    std::string mend;
  };
  for (const Case& one : std::vector<Case>{
           {"PRETTY_NAME=\"Debian\"\nID=debian\n", "sudo apt-get install openssh-client"},
           {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "sudo apt-get install openssh-client"},
           {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "sudo dnf install openssh-clients"},
           {"ID=fedora\n", "sudo dnf install openssh-clients"},
           {"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
            "sudo zypper install openssh-clients"},
           {"ID=\"sles\"\n", "sudo zypper install openssh-clients"},
           {"ID=arch\nBUILD_ID=debian\n", "install the package openssh-client"},
           {"", "install the package openssh-client"}}) {
    const tests::TempDir root;
    write(root.path() + "/etc/os-release", one.os_release);
    ProgramFacts facts{.packages = read_package_manager(root.path())};
    EXPECT_EQ(named(check_programs(facts), "ssh").mend, one.mend) << one.os_release;
  }
  const tests::TempDir bare;
  EXPECT_EQ(read_package_manager(bare.path()), PackageManager::kOther);
  const GpuFacts two{.gpus = 2, .driver = "580.1", .packages = PackageManager::kDnf};
  EXPECT_EQ(named(check_gpu(two), "NCCL").mend, "sudo dnf install libnccl");
}

TEST(DoctorGpu, LibrariesMatch) {
  const GpuFacts good{.gpus = 2,
                      .driver = "580.1",
                      .cuda_driver = 13000,
                      .cudart = 13000,
                      .nccl = 22809,
                      .nccl_cuda = 13};
  const auto verdict = [&](const std::string& name, auto change) {
    GpuFacts facts = good;
    change(facts);
    return verdict_of(check_gpu(facts), name);
  };
  for (const Check& check : check_gpu(good)) EXPECT_EQ(check.verdict, Verdict::kOk) << check.name;
  EXPECT_EQ(named(check_gpu(good), "NCCL").found, "2.28.9, for CUDA 13");
  EXPECT_EQ(verdict("GPU driver", [](GpuFacts& f) { f.driver.clear(); }), Verdict::kWrong);
  EXPECT_EQ(verdict("CUDA", [](GpuFacts& f) { f.cuda_driver = 0; }), Verdict::kWrong);
  EXPECT_EQ(verdict("CUDA", [](GpuFacts& f) { f.error = "it crashed"; }), Verdict::kWrong);
  EXPECT_EQ(verdict("CUDA runtime", [](GpuFacts& f) { f.cuda_driver = 12040; }), Verdict::kWrong);
  EXPECT_EQ(verdict("CUDA runtime", [](GpuFacts& f) { f.cudart = 12040; }), Verdict::kOk);
  EXPECT_EQ(verdict("NCCL", [](GpuFacts& f) { f.nccl = 0; }), Verdict::kWarn);
  EXPECT_EQ(verdict("NCCL", [](GpuFacts& f) { f.nccl_cuda = 14; }), Verdict::kWrong);
  EXPECT_EQ(verdict("NCCL", [](GpuFacts& f) { f.nccl_cuda = 12; }), Verdict::kWarn);
  EXPECT_EQ(verdict("GPUs", [](GpuFacts& f) { f.gpus = 0; }), Verdict::kOk);
}

}  // namespace
}  // namespace dl::launcher::doctor
