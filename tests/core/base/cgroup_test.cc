#include "core/base/system/machine/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace dl {
namespace {

// Files of a made-up machine.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  const std::string& root() const { return root_.path(); }

 private:
  const tests::TempDir root_;
};

TEST_F(ControlGroups, CpuQuotaIsTheSmallestOfAllGroupsUpToTheRoot) {
  write("/proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root()), 1.5);
  write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(root()), 1.5);

  write("/proc/self/cgroup", "7:memory:/x\n4:cpu,cpuacct:/c\n");
  write("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
  write("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cpu_quota(root()), 2.5);
}

TEST_F(ControlGroups, MemoryLeftIsTheLeastOfAllGroupsUpToTheRoot) {
  EXPECT_EQ(memory_left_by_cgroup(root()), std::nullopt);
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/step/memory.current", "5000\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), std::nullopt);
  write("/sys/fs/cgroup/job/memory.max", "10000\n");
  write("/sys/fs/cgroup/job/memory.current", "6000\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 4000U);
  write("/sys/fs/cgroup/job/memory.stat", "anon 1\nfile 2500\ninactive_file 2000\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 6000U);
  write("/sys/fs/cgroup/job/step/memory.max", "5500\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 500U);
  write("/sys/fs/cgroup/job/step/memory.current", "6000\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 0U);
}

TEST_F(ControlGroups, TheLowestLimitOfAllParentGroupsCounts) {
  write("/proc/self/cgroup", "0::/job/step\n");
  EXPECT_EQ(pids_limit(root()), std::nullopt);
  write("/sys/fs/cgroup/job/step/pids.max", "max\n");
  EXPECT_EQ(pids_limit(root()), std::nullopt);
  write("/sys/fs/cgroup/job/pids.max", "42\n");
  EXPECT_EQ(pids_limit(root()), 42U);
  write("/proc/self/cgroup", "7:pids:/x\n");
  write("/sys/fs/cgroup/pids/x/pids.max", "7\n");
  EXPECT_EQ(pids_limit(root()), 7U);
}

TEST_F(ControlGroups, MemoryLeftByVersionOne) {
  write("/proc/self/cgroup", "7:memory:/slurm/job\n4:cpu,cpuacct:/c\n");
  write("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), std::nullopt);
  write("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 4096U);
  write("/sys/fs/cgroup/memory/slurm/job/memory.stat", "inactive_file 7\ntotal_inactive_file 9\n");
  EXPECT_EQ(memory_left_by_cgroup(root()), 4105U);
}

TEST_F(ControlGroups, MemoryKillsAreThoseOfTheProcessesOwnGroup) {
  EXPECT_EQ(memory_kills(root()), std::nullopt);
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/memory.events", "oom 9\noom_kill 9\n");
  write("/sys/fs/cgroup/job/step/cgroup.procs", "1\n");
  EXPECT_EQ(memory_kills(root()), std::nullopt);  // the group above counts other processes too
  write("/sys/fs/cgroup/job/step/memory.events", "low 0\nmax 40\noom 3\noom_kill 2\n");
  EXPECT_EQ(memory_kills(root()), 2U);

  // Version 1, beside a version 2 without a memory controller.
  write("/proc/self/cgroup", "4:memory:/x\n0::/\n");
  write("/sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill_disable 0\noom_kill 5\n");
  EXPECT_EQ(memory_kills(root()), 5U);
  // A container that sees its own group as the root, under the host's name.
  write("/proc/self/cgroup", "4:memory:/docker/ab\n");
  write("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n");
  EXPECT_EQ(memory_kills(root()), 1U);
}

}  // namespace
}  // namespace dl
