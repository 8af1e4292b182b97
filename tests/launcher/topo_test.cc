// What a host looks like, on machines in hwloc's notation and with a /sys of the test's own.
#include "launcher/topo/topo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/system/machine/cpus.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher::topo {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A host's files: devices with their bridges, and the links under /sys/bus and /sys/class.
class FakeHost {
 public:
  std::string root() const { return dir_.path(); }

  // `bridges`: "pci0000:00/0000:00:01.0"
  fs::path add_pci(const std::string& bridges, const std::string& address, int numa_node,
                   const std::string& cpus) {
    const fs::path folder = fs::path(root()) / "sys/devices" / bridges / address;
    fs::create_directories(folder);
    write(folder / "numa_node", std::to_string(numa_node));
    write(folder / "local_cpulist", cpus);
    return folder;
  }
  void add_gpu(const std::string& bridges, const std::string& address, int numa_node,
               const std::string& cpus) {
    const fs::path folder = add_pci(bridges, address, numa_node, cpus);
    write(folder / "vendor", "0x10de");
    write(folder / "device", "0x2335");
    write(folder / "class", "0x030200");
    link(folder, "sys/bus/pci/devices/" + address);
    const fs::path driver = fs::path(root()) / "proc/driver/nvidia/gpus" / address;
    fs::create_directories(driver);
    write(driver / "information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42");
  }
  void add_network(const std::string& name, const fs::path& device) {
    const fs::path folder = device / "net" / name;
    fs::create_directories(folder);
    write(folder / "speed", "25000");
    write(folder / "mtu", "9000");
    write(folder / "operstate", "up");
    link(device, (folder / "device").lexically_relative(root()));
    link(folder, "sys/class/net/" + name);
  }
  static void write(const fs::path& file, const std::string& text) {
    std::ofstream(file) << text << "\n";
  }

 private:
  void link(const fs::path& to, const fs::path& from) {
    const fs::path at = fs::path(root()) / from;
    fs::create_directories(at.parent_path());
    fs::create_symlink(to, at);
  }
  tests::TempDir dir_;
};

std::vector<int> first_cpus(int n) {
  std::vector<int> cpus(static_cast<std::size_t>(n));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

// 2 sockets with 4 GPUs each, two of them behind one switch, and a network on each socket.
HostMap server() {
  FakeHost host;
  const auto gpus_of_socket = [&](int socket) {
    const std::string cpus = socket == 0 ? "0-7" : "8-15";
    for (int i = 0; i < 4; ++i) {
      // A root port, the switch, and the switch's port above the device.
      const std::string bus = std::to_string(socket) + std::to_string(i / 2);
      const std::string above = "pci0000:" + std::to_string(socket) + "0/0000:" + bus +
                                ":01.0/0000:" + bus + ":02.0/0000:" + bus + ":0" +
                                std::to_string(4 + i % 2) + ".0";
      host.add_gpu(above, "0000:" + std::to_string(socket + 1) + std::to_string(i) + ":00.0",
                   socket, cpus);
    }
    const fs::path card = host.add_pci("pci0000:" + std::to_string(socket) + "8",
                                       "0000:" + std::to_string(socket) + "9:00.0", socket, cpus);
    host.add_network("eth" + std::to_string(socket), card);
  };
  gpus_of_socket(0);
  gpus_of_socket(1);
  return {.host = "server",
          .topology = read_topology(first_cpus(16), "package:2 numa:1 core:4 pu:2"),
          .usable_cores = 16,
          .devices = read_devices(host.root())};
}

TEST(Topo, FindsGpusAndNetworksWithTheirPlaces) {
  const HostMap map = server();
  ASSERT_EQ(map.devices.size(), 10U);
  const Device& gpu = map.devices[5];
  EXPECT_EQ(gpu.name, "GPU5");
  EXPECT_EQ(gpu.model, "NVIDIA H200");
  EXPECT_EQ(gpu.pci, "0000:21:00.0");
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_THAT(gpu.cpus, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(gpu.bridges,
              ElementsAre("pci0000:10", "0000:10:01.0", "0000:10:02.0", "0000:10:05.0"));
  EXPECT_EQ(map.devices[8].model, "25000 Mb/s, MTU 9000, up");
}

TEST(Topo, SaysHowFarDevicesAreInNvidiaSmisWords) {
  const HostMap map = server();
  const auto between = [&](std::size_t a, std::size_t b) {
    return std::string(word(distance_between(map.devices[a], map.devices[b])));
  };
  EXPECT_EQ(between(0, 0), "X");
  EXPECT_EQ(between(0, 1), "PIX") << "behind one switch";
  EXPECT_EQ(between(0, 2), "PHB") << "two switches of one host bridge";
  EXPECT_EQ(between(0, 4), "SYS") << "two sockets";
  EXPECT_EQ(between(0, 8), "NODE") << "two host bridges of a socket";
  EXPECT_EQ(between(8, 9), "SYS");
  // A switch behind a switch.
  Device near = map.devices[0];
  Device far = map.devices[1];
  near.bridges.insert(near.bridges.end() - 1, "0000:00:06.0");
  EXPECT_EQ(word(distance_between(near, far)), "PXB");
  const Device none{.name = "eth9"};
  EXPECT_EQ(word(distance_between(none, near)), "?");
}

TEST(Topo, ShowsATableAMatrixAndAPicture) {
  const HostMap map = server();
  const std::vector<std::string> lines = page(map);
  EXPECT_EQ(lines[0], "server: 2 sockets, 2 NUMA nodes");
  EXPECT_EQ(lines[1], "  dlrun may use 8 cores, 16 CPUs (0-15)");
  EXPECT_THAT(lines[5], testing::AllOf(HasSubstr("NUMA node 1: "), HasSubstr(", CPUs 8-15, GPU4"),
                                       HasSubstr(", eth1")));
  const std::vector<std::string> rows = matrix(map);
  EXPECT_THAT(rows[0], HasSubstr("GPU7  eth0  eth1  CPU affinity  NUMA affinity"));
  EXPECT_EQ(rows[1],
            "GPU0  X     PIX   PHB   PHB   SYS   SYS   SYS   SYS   NODE  SYS   0-7           0");
  EXPECT_EQ(rows.back(), "SYS  = the link between NUMA nodes");
  const std::string svg = picture({map});
  EXPECT_THAT(svg, HasSubstr("NVIDIA H200"));
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

TEST(Topo, CountsNvLinksInNvidiaSmisMatrix) {
  HostMap map = server();
  // GPU0 and GPU1 are joined directly, and all others by switches.
  std::vector<Gpu> gpus(8);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].pci = map.devices[i].pci;
    gpus[i].nv_links.assign(i < 2 ? 2 : 18, std::string(kNvSwitch));
    if (i < 2) std::ranges::fill(gpus[i].nv_links, map.devices[1 - i].pci);
  }
  gpus[7].nv_links.pop_back();  // a link that is down
  add_nv_links(gpus, map.devices);
  EXPECT_EQ(cell(map.devices[0], map.devices[1]), "NV2");
  EXPECT_EQ(cell(map.devices[0], map.devices[2]), "PHB");
  EXPECT_EQ(cell(map.devices[2], map.devices[6]), "NV18");
  EXPECT_EQ(cell(map.devices[2], map.devices[7]), "NV17");
  EXPECT_EQ(cell(map.devices[2], map.devices[2]), "X");
  EXPECT_EQ(cell(map.devices[2], map.devices[8]), "NODE");
  EXPECT_EQ(matrix(map).back(), "NV#  = NVLinks, so many");
  EXPECT_EQ(nlohmann::json::parse(json(map))["devices"][2]["nv_links"]["GPU7"], 17);
}

TEST(Topo, OfALaptopHasNoMatrix) {
  const HostMap map{.host = "laptop",
                    .topology = read_topology(first_cpus(3), "package:1 l3:1 core:4 pu:1"),
                    .usable_cores = 1.5,
                    .devices = {}};
  const std::vector<std::string> lines = page(map);
  // A control group leaves three CPUs, and half of their time.
  EXPECT_THAT(lines[1], HasSubstr("3 cores, 3 CPUs (0-2), of which 1.5 are granted"));
  EXPECT_THAT(lines.back(), HasSubstr("no GPU and no network interface"));
}

TEST(Topo, ShowsTheWholeHostIfOneSocketMayBeUsed) {
  const HostMap map{.host = "half",
                    .topology = read_topology({0}, "package:2 numa:2 core:4 pu:2"),
                    .usable_cores = 1,
                    .devices = {}};
  const std::vector<std::string> lines = page(map);
  EXPECT_EQ(lines[0], "half: 2 sockets, 4 NUMA nodes");
  EXPECT_EQ(lines[1], "  dlrun may use 1 core, 1 CPU (0)");
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("    NUMA node 3: ")));
  EXPECT_THAT(picture({map}), HasSubstr("NUMA node 3, "));
}

TEST(Topo, LeavesOutWhatCannotBeRead) {
  EXPECT_THAT(read_devices("/nonexistent"), IsEmpty());
  FakeHost host;
  const fs::path card = host.add_pci("pci0000:00", "0000:03:00.0", -1, "\xff,");
  host.add_network("a<b", card);
  fs::remove(card / "net/a<b/speed");
  const std::vector<Device> devices = read_devices(host.root());
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].numa_node, -1);
  EXPECT_THAT(devices[0].cpus, IsEmpty());
  EXPECT_EQ(devices[0].model, "MTU 9000, up");
  const HostMap map{.host = "h", .topology = {}, .usable_cores = 1, .devices = devices};
  EXPECT_THAT(picture({map}), HasSubstr("a&lt;b"));
  EXPECT_THAT(page(map).back(), HasSubstr("a<b"));
}

TEST(Topo, OfThisHostIsPrintedInEachForm) {
  const auto ran = [](const std::vector<std::string>& words, int code) {
    std::vector<std::string> argv{tests::program("dlrun"), "topo"};
    argv.insert(argv.end(), words.begin(), words.end());
    tests::Process process(argv);
    EXPECT_EQ(process.wait(), code) << process.err();
    return process.out() + process.err();
  };
  EXPECT_THAT(ran({}, 0), HasSubstr(" core"));
  const auto object = nlohmann::json::parse(ran({"--json"}, 0));
  EXPECT_GE(object["cores"].size(), 1U);
  EXPECT_THAT(ran({"--svg"}, 0), HasSubstr("</svg>"));
  EXPECT_THAT(ran({"-m"}, 0), HasSubstr("CPU affinity"));
  EXPECT_THAT(ran({"--help"}, 0), HasSubstr("Usage: dlrun topo"));
  EXPECT_THAT(ran({"--matrix", "--json"}, 2), HasSubstr("topo shows one of --matrix and --json"));
  EXPECT_THAT(ran({"x"}, 2), HasSubstr("topo does not know `x`"));
  // An error that cannot be told is an exit code all the same.
  for (const auto& [words, code] : {std::pair{" --help >&- 2>&-", 1},
                                    {" --bad 2>/dev/full", 2},
                                    {" topo x 2>&-", 2},
                                    {" topo 2>&- >/dev/full", 1}}) {
    tests::Process silent({"/bin/sh", "-c", tests::program("dlrun") + words});
    EXPECT_EQ(silent.wait(), code) << words;
  }
  // Behind an option it is a program.
  tests::Process program({tests::program("dlrun"), "-n", "1", "topo"});
  EXPECT_EQ(program.wait(), 127);
}

}  // namespace
}  // namespace dl::launcher::topo
