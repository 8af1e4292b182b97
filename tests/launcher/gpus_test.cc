#include "launcher/plan/machine/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "launcher/cli/options.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/plan.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::vector<Gpu> kTwo = {{"GPU-aa11", "NVIDIA H200", false, {}, true},
                               {"GPU-aa22", "NVIDIA H200", false, {}, true}};
const std::vector<Gpu> kPartitioned = {{"GPU-bb11", "NVIDIA H200", true, {"MIG-1", "MIG-2"}, true},
                                       {"GPU-bb22", "NVIDIA H200", false, {}, true}};

std::vector<std::string> tokens(const std::vector<Gpu>& gpus, std::optional<std::string> mask) {
  std::vector<std::string> all;
  for (const VisibleGpu& gpu : visible_gpus(gpus, mask)) all.push_back(gpu.token);
  return all;
}

template <typename F>
std::string refusal(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string mask_refusal(const std::vector<Gpu>& gpus, const std::string& mask) {
  return refusal([&] { visible_gpus(gpus, mask); });
}

TEST(VisibleGpus, AreAllIfUnsetAndNoneIfEmpty) {
  EXPECT_THAT(tokens(kTwo, std::nullopt), ElementsAre("0", "1"));
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(tokens(kTwo, none), IsEmpty());
}

TEST(VisibleGpus, AreThoseThatAreNamedInThatOrder) {
  EXPECT_THAT(tokens(kTwo, "1,0"), ElementsAre("1", "0"));
  EXPECT_THAT(tokens(kTwo, " 1 ,"), ElementsAre("1"));
  EXPECT_THAT(tokens(kTwo, "GPU-aa22,GPU-aa1"), ElementsAre("GPU-aa22", "GPU-aa1"));
  EXPECT_EQ(visible_gpus(kTwo, "GPU-aa2")[0].uuid, "GPU-aa22");
  EXPECT_THAT(tokens(kTwo, "1,-1,0"), ElementsAre("1"));  // CUDA's list ends at -1
}

TEST(VisibleGpus, AreTheInstancesOfAGpuInMigMode) {
  EXPECT_THAT(tokens(kPartitioned, std::nullopt), ElementsAre("MIG-1", "MIG-2", "1"));
  EXPECT_THAT(tokens(kPartitioned, "MIG-2"), ElementsAre("MIG-2"));
  EXPECT_THAT(tokens(kPartitioned, "MIG-GPU-bb11/1/0"), ElementsAre("MIG-GPU-bb11/1/0"));
}

TEST(VisibleGpus, RefusesEntriesThatCudaWouldIgnore) {
  EXPECT_EQ(mask_refusal(kTwo, "0,2"),
            "CUDA_VISIBLE_DEVICES is `0,2`: there is no GPU 2 (2 GPUs were found), and CUDA would "
            "leave out all from there on");
  EXPECT_THAT(mask_refusal({}, "0"), HasSubstr("no GPU was found"));
  EXPECT_THAT(mask_refusal(kTwo, "1,0,1"), HasSubstr("names `1` twice"));
  EXPECT_THAT(mask_refusal(kTwo, "GPU-aa11,GPU-aa1"), HasSubstr("names `GPU-aa1` twice"));
  EXPECT_THAT(mask_refusal(kTwo, "GPU-aa"), HasSubstr("the beginning of two GPUs' UUIDs"));
  EXPECT_THAT(mask_refusal(kTwo, "GPU-cc"), HasSubstr("no GPU here is `GPU-cc`"));
  EXPECT_THAT(mask_refusal(kTwo, "0,GPU-aa22"), HasSubstr("not `GPU-aa22` beside `0`"));
  EXPECT_THAT(mask_refusal(kPartitioned, "MIG-3"), HasSubstr("no MIG instance here is `MIG-3`"));
  for (const char* bad : {"0-1", "all", "0;1", "0,,1", "-2", "1e0"}) {
    EXPECT_THAT(mask_refusal(kTwo, bad), HasSubstr("is neither a GPU's number")) << bad;
  }
}

TEST(Gpus, AreReadFromProcIfTheLibraryIsMissing) {
  const tests::TempDir root;
  EXPECT_THAT(gpus_of_proc(root.path()), IsEmpty());
  const auto write = [&](const std::string& bus, const std::string& text) {
    const std::filesystem::path folder = root.path() + "/proc/driver/nvidia/gpus/" + bus;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "information") << text;
  };
  write("0000:c1:00.0", "Model: \t\t NVIDIA A100\nIRQ:   \t\t 90\nGPU UUID: \t GPU-????????\n");
  write("0000:01:00.0", "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-aa11\nBus Type: \t PCIe\n");
  const auto gpus = gpus_of_proc(root.path());
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].uuid, "GPU-aa11");
  EXPECT_EQ(gpus[1].uuid, "");
  EXPECT_THAT(tokens(gpus, "MIG-7"), ElementsAre("MIG-7"));  // it cannot be checked here
}

TEST(Gpus, AnAnswerThatEndsEarlyIsNoAnswer) {
  EXPECT_THAT(gpus_of_answer("end\n"), IsEmpty());
  for (const char* bad : {"", "gpu\tGPU-1\tH200\t0\n", "gpu\tGPU-1\nend", "mig\tMIG-1\nend\n"}) {
    EXPECT_THAT(refusal([&] { gpus_of_answer(bad); }), HasSubstr("does not say which GPUs"));
  }
}

NodePlan plan_of(std::vector<std::string> arguments, const std::vector<Gpu>& gpus) {
  Machine machine{"box", {0, 1, 2, 3, 4, 5}, std::nullopt, visible_gpus(gpus, std::nullopt)};
  return make_plan(std::get<Options>(parse_options(arguments)), machine);
}

std::vector<std::string> environment(const NodePlan& plan, std::size_t rank) {
  return rank_environment(plan, supposed_meeting(plan), plan.ranks.at(rank), {});
}

TEST(GpuPlan, GpuAndAutoMeanOneRankAGpu) {
  EXPECT_EQ(plan_of({"--nproc-per-node=gpu", "x"}, kTwo).local_world_size(), 2);
  EXPECT_EQ(plan_of({"--nproc-per-node=auto", "x"}, kTwo).local_world_size(), 2);
  EXPECT_EQ(plan_of({"--nproc-per-node=cpu", "x"}, kTwo).local_world_size(), 6);
  EXPECT_EQ(plan_of({"--nproc-per-node=auto", "x"}, {}).local_world_size(), 6);
  EXPECT_EQ(plan_of({"--nproc-per-node=gpu", "--gpus-per-rank=2", "x"}, kTwo).local_world_size(),
            1);
  EXPECT_THAT(refusal([] { plan_of({"--nproc-per-node=gpu", "x"}, {}); }),
              HasSubstr("sees no GPU"));
  EXPECT_THAT(refusal([] { plan_of({"--nproc-per-node=gpu", "--gpus-per-rank=3", "x"}, kTwo); }),
              HasSubstr("2 GPUs are no multiple of --gpus-per-rank 3"));
}

TEST(GpuPlan, LooksForGpusOnlyIfTheyMatter) {
  const auto needs = [](std::vector<std::string> arguments) {
    return needs_gpus(std::get<Options>(parse_options(arguments)));
  };
  EXPECT_FALSE(needs({"--nproc-per-node=4", "x"}));
  EXPECT_FALSE(needs({"--nproc-per-node=cpu", "x"}));
  EXPECT_FALSE(needs({"--gpu-policy=leave", "x"}));
  EXPECT_TRUE(needs({"--nproc-per-node=auto", "x"}));
  EXPECT_TRUE(needs({"--gpu-policy=keep", "x"}));
  EXPECT_TRUE(needs({"--gpus-per-rank=1", "x"}));
}

TEST(GpuPlan, KeepTellsARankItsOwnAndScopeHidesTheOthers) {
  const NodePlan kept = plan_of({"--nproc-per-node=gpu", "x"}, kTwo);
  EXPECT_THAT(environment(kept, 1),
              AllOf(Contains("DLRUN_GPUS=1"), Not(Contains(StartsWith("CUDA_VISIBLE_DEVICES=")))));
  const NodePlan scoped = plan_of({"--nproc-per-node=gpu", "--gpu-policy=scope", "x"}, kTwo);
  EXPECT_THAT(environment(scoped, 1),
              AllOf(Contains("DLRUN_GPUS=0"), Contains("CUDA_VISIBLE_DEVICES=1")));
  const NodePlan both = plan_of({"--gpus-per-rank=2", "--gpu-policy=scope", "x"}, kTwo);
  EXPECT_THAT(environment(both, 0),
              AllOf(Contains("DLRUN_GPUS=0,1"), Contains("CUDA_VISIBLE_DEVICES=0,1")));
  for (const auto& arguments : {std::vector<std::string>{"--nproc-per-node=2", "x"},
                                {"--nproc-per-node=gpu", "--gpu-policy=leave", "x"}}) {
    const NodePlan left = plan_of(arguments, kTwo);
    EXPECT_EQ(left.local_world_size(), 2);
    EXPECT_THAT(environment(left, 0), AllOf(Not(Contains(StartsWith("DLRUN_GPUS="))),
                                            Not(Contains(StartsWith("CUDA_VISIBLE_DEVICES=")))));
  }
}

TEST(GpuPlan, SharedGpusAreNamed) {
  const NodePlan plan = plan_of({"--nproc-per-node=3", "--gpu-policy=scope", "x"}, kTwo);
  EXPECT_THAT(environment(plan, 2), Contains("CUDA_VISIBLE_DEVICES=0"));
  EXPECT_THAT(shared_gpus(plan),
              ElementsAre("GPU 0 (NVIDIA H200) is shared by local ranks 0 and 2"));
  EXPECT_THAT(shared_gpus(plan_of({"--nproc-per-node=3", "x"}, kTwo)), IsEmpty());
  EXPECT_THAT(refusal([] { plan_of({"--nproc-per-node=2", "--gpus-per-rank=2", "x"}, kTwo); }),
              HasSubstr("2 ranks would need 4 GPUs, and 2 can be seen"));
  EXPECT_THAT(refusal([] { plan_of({"--gpus-per-rank=1", "x"}, {}); }), HasSubstr("sees no GPU"));
}

TEST(GpuPlan, MigInstancesAreGivenOutOneARank) {
  EXPECT_THAT(refusal([] { plan_of({"--nproc-per-node=gpu", "x"}, kPartitioned); }),
              AllOf(HasSubstr("MIG-1 is a MIG instance"), HasSubstr("--gpu-policy scope")));
  const NodePlan plan = plan_of({"--nproc-per-node=gpu", "--gpu-policy=scope", "x"}, kPartitioned);
  EXPECT_THAT(environment(plan, 1), Contains("CUDA_VISIBLE_DEVICES=MIG-2"));
  EXPECT_THAT(environment(plan, 2), Contains("CUDA_VISIBLE_DEVICES=1"));
}

// A driver made for the purpose: ctest puts tests/launcher/fake_nvml.c into the library's search
// path.
class Driver : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }  // of the machine
  static void is(const char* what) { ::setenv("FAKE_NVML", what, 1); }
  void TearDown() override { ::unsetenv("FAKE_NVML"); }
};

TEST_F(Driver, TellsGpusTheirNamesAndTheirInstances) {
  is("A,X,B*2,C*0");
  const auto gpus = find_gpus();
  ASSERT_EQ(gpus.size(), 3U);  // X is another job's
  EXPECT_EQ(gpus[0].uuid, "GPU-A000");
  EXPECT_EQ(gpus[0].name, "NVIDIA Fake A");
  EXPECT_THAT(gpus[1].instances, ElementsAre("MIG-B0", "MIG-B1"));
  EXPECT_THAT(tokens(gpus, std::nullopt), ElementsAre("0", "MIG-B0", "MIG-B1"));
}

TEST_F(Driver, TellsTheirPlacesAndTheirNvLinks) {
  is("A,B");
  EXPECT_THAT(find_gpus()[1].nv_links, IsEmpty());
  ::setenv("FAKE_NVML_LINKS", "2", 1);
  const auto direct = find_gpus();
  EXPECT_EQ(direct[0].pci, "0000:10:00.0");
  EXPECT_THAT(direct[0].nv_links, ElementsAre("0000:11:00.0", "0000:11:00.0"));
  EXPECT_THAT(direct[1].nv_links, ElementsAre("0000:10:00.0", "0000:10:00.0"));
  ::setenv("FAKE_NVML_LINKS", "3s", 1);
  EXPECT_THAT(find_gpus()[0].nv_links, ElementsAre("switch", "switch", "switch"));
  ::unsetenv("FAKE_NVML_LINKS");
}

TEST_F(Driver, ThatIsNotThereMeansNoGpu) {
  EXPECT_THAT(find_gpus(), IsEmpty());
}

TEST_F(Driver, InTroubleIsSaidAndNeverTakenForNone) {
  is("mismatch");
  EXPECT_EQ(refusal([] { find_gpus(); }),
            "the NVIDIA driver does not say which GPUs there are: nvmlInit: Driver/library version "
            "mismatch");
  is("crash");
  EXPECT_THAT(refusal([] { find_gpus(); }), HasSubstr("ended the process that asked it"));
  is("hang");
  EXPECT_THAT(refusal([] { find_gpus(std::chrono::milliseconds(20)); }),
              HasSubstr("the NVIDIA driver has not said within"));
}

TEST_F(Driver, DryRunShowsWhoHasWhich) {
  const auto dlrun = [](const std::vector<std::string>& arguments, const std::string& mask) {
    std::vector<std::string> command = {tests::program("dlrun"), "--dry-run"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<tests::Process>(
        command, tests::Process::Options{.environment = {"FAKE_NVML=A,B,C", mask}});
  };
  const auto json = dlrun({"--json", "--nproc-per-node=gpu", "--gpu-policy=scope", "x"},
                          "CUDA_VISIBLE_DEVICES=2,0");
  ASSERT_EQ(json->wait(), 0) << json->err();
  const auto plan = nlohmann::json::parse(json->out());
  EXPECT_EQ(plan["gpus"][0]["uuid"], "GPU-C000");
  EXPECT_EQ(plan["ranks"][1]["gpus"], nlohmann::json::array({1}));
  EXPECT_EQ(plan["ranks"][1]["environment"]["CUDA_VISIBLE_DEVICES"], "0");

  const auto table = dlrun({"--nproc-per-node=4", "--gpu-policy=keep", "x"}, "FAKE_NOTHING=1");
  EXPECT_EQ(table->wait(), 0) << table->err();
  EXPECT_THAT(table->out(),
              AllOf(HasSubstr("GPU 1: NVIDIA Fake B, GPU-B000\n"),
                    HasSubstr("GPU 0 (NVIDIA Fake A) is shared by local ranks 0 and 3\n")));

  const auto refused = dlrun({"--nproc-per-node=gpu", "x"}, "CUDA_VISIBLE_DEVICES=0,5");
  EXPECT_EQ(refused->wait(), 2);
  EXPECT_THAT(refused->err(), HasSubstr("there is no GPU 5 (3 GPUs were found)"));
  // If no rank asks for a GPU, dlrun reports it and continues.
  const auto noted = dlrun({"x"}, "CUDA_VISIBLE_DEVICES=0,5");
  EXPECT_EQ(noted->wait(), 0);
  EXPECT_THAT(noted->err(), HasSubstr("there is no GPU 5"));
}

}  // namespace
}  // namespace dl::launcher
