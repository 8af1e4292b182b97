// `dlrun topo --hosts`: maps that are read back from JSON, and hosts that look alike.
#include "launcher/topo/hosts.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "tests/support/process.h"
#include "tests/support/ssh_hosts.h"

namespace dl::launcher::topo {
namespace {

using json_object = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Three GPUs, of which two are joined by NVLinks and the third by a switch, and a network of the
// other socket with an InfiniBand device at its PCI address.
HostMap node(const std::string& name) {
  HostMap map{.host = name,
              .topology = {.cores = {{.socket = 0, .numa_node = 0, .cpus = {0, 4}},
                                     {.socket = 1, .numa_node = 2, .cpus = {1}}},
                           .sockets = {"Xeon \"x\"", ""},
                           .numa_nodes = {{.number = 0, .socket = 0, .bytes = 1ULL << 39},
                                          {.number = 2, .socket = 1, .bytes = UINT64_MAX}},
                           .caches = {{.level = 1, .bytes = 49152, .count = 2}}},
              .usable_cores = 2.5,
              .devices = {}};
  for (int i = 0; i < 3; ++i) {
    map.devices.push_back({.kind = DeviceKind::kGpu,
                           .name = fmt::format("GPU{}", i),
                           .model = "NVIDIA H200",
                           .pci = fmt::format("0000:1{}:00.0", i),
                           .bridges = {"pci0000:10", fmt::format("0000:10:0{}.0", i)},
                           .numa_node = 0,
                           .cpus = {0, 4}});
  }
  map.devices[0].nv_links = {map.devices[1].pci, map.devices[1].pci, std::string(kNvSwitch)};
  map.devices[1].nv_links = {map.devices[0].pci, map.devices[0].pci};
  map.devices[2].nv_links = {std::string(kNvSwitch), std::string(kNvSwitch)};
  map.devices.push_back({.name = "eth0",
                         .model = "25000 Mb/s, MTU 9000, up",
                         .pci = "0000:90:00.0",
                         .bridges = {"pci0000:90"},
                         .numa_node = 2,
                         .cpus = {1}});
  map.devices.push_back({.kind = DeviceKind::kInfiniBand, .name = "mlx5_0", .pci = "0000:90:00.0"});
  return map;
}

AskedHost answered(HostMap map) {
  return {.error = {}, .map = std::move(map)};
}

std::string why_not_read(const std::string& text) {
  try {
    read_map(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kParse);
    return error.what();
  }
  return "it was read";
}

TEST(TopoJson, IsReadBackAsItWasWritten) {
  for (const HostMap& map : {node("n1"), HostMap{.host = "bare", .topology = {}, .devices = {}}}) {
    const HostMap read = read_map(json(map));
    EXPECT_EQ(json(read), json(map));
    EXPECT_EQ(page(read), page(map));
    EXPECT_EQ(matrix(read), matrix(map));
    EXPECT_EQ(picture({read}), picture({map}));
  }
  const HostMap read = read_map(json(node("n1")));
  EXPECT_EQ(cell(read.devices[0], read.devices[1]), "NV2");
  EXPECT_EQ(cell(read.devices[2], read.devices[0]), "NV1");
  EXPECT_EQ(cell(read.devices[1], read.devices[2]), "PHB");
}

TEST(TopoJson, ThatNoDlrunWritesIsRefusedInOneSentence) {
  EXPECT_THAT(why_not_read(""), HasSubstr("it is no JSON"));
  EXPECT_THAT(why_not_read("welcome to n1\n{}"), HasSubstr("it is no JSON"));
  EXPECT_THAT(why_not_read(std::string(100'000, '[')), HasSubstr("it is no JSON"));
  EXPECT_THAT(why_not_read("{}"), HasSubstr("\"host\" is missing"));
  EXPECT_THAT(why_not_read("[]"), HasSubstr("\"host\" is missing"));
  const json_object right = json_object::parse(json(node("n1")));
  const std::string long_text(5000, 'x');
  for (const auto& [at, wrong, member] :
       std::vector<std::tuple<std::string, json_object, std::string>>{
           {"/host", 7, "host"},
           {"/host", "a\nb", "host"},
           {"/host", long_text, "host"},
           {"/usable_cores", "2", "usable_cores"},
           {"/usable_cores", -1, "usable_cores"},
           {"/usable_cores", 1e300, "usable_cores"},
           {"/sockets", json_object::array({1}), "sockets[0]"},
           {"/sockets", std::vector<std::string>(5000), "sockets"},
           {"/numa_nodes/0/number", -1, "numa_nodes[0].number"},
           {"/numa_nodes/0/number", 2, "numa_nodes"},  // the number of the other node
           {"/numa_nodes/1/bytes", -5, "numa_nodes[1].bytes"},
           {"/numa_nodes/1/bytes", 1e30, "numa_nodes[1].bytes"},
           {"/cores", json_object::object(), "cores"},
           {"/cores/1/cpus", json_object::array(), "cores[1].cpus"},
           {"/cores/1/cpus", json_object({2, 1}), "cores[1].cpus"},
           {"/cores/1/cpus", json_object({1, 1}), "cores[1].cpus"},
           {"/cores/0/cpus/1", 5'000'000'000, "cores[0].cpus[1]"},
           {"/cores/0/cpus/1", UINT64_MAX, "cores[0].cpus[1]"},
           {"/cores/0/socket", 0.5, "cores[0].socket"},
           {"/caches/0/level", nullptr, "caches[0].level"},
           {"/devices/0/kind", "tpu", "devices[0].kind"},
           {"/devices/0/numa_node", "0", "devices[0].numa_node"},
           {"/devices/0/bridges", "pci", "devices[0].bridges"},
           {"/devices/0/nv_links", {{"GPU7", 1}}, "devices[0].nv_links"},
           {"/devices/0/nv_links", {{"GPU1", 1'000'000}}, "devices[0].nv_links.GPU1"},
           {"/devices/0/nv_links", json_object::array(), "devices[0].nv_links"}}) {
    json_object all = right;
    all[json_object::json_pointer(at)] = wrong;
    EXPECT_THAT(why_not_read(all.dump()),
                HasSubstr("\"" + member + "\" is not as dlrun topo writes it"))
        << at << " " << wrong;
  }
  for (const std::string member : {"usable_cores", "cores", "devices"}) {
    json_object all = right;
    all.erase(member);
    EXPECT_THAT(why_not_read(all.dump()), HasSubstr("\"" + member + "\" is missing"));
  }
}

TEST(TopoHosts, NamesThatFollowEachOtherAreARange) {
  EXPECT_EQ(ranges_of({"n01", "n02", "n03", "n16"}), "n01-n03, n16");
  EXPECT_EQ(ranges_of({"n08", "n09", "n10", "n11"}), "n08-n11");
  EXPECT_EQ(ranges_of({"n9", "n10"}), "n9-n10");
  EXPECT_EQ(ranges_of({"n09", "n010"}), "n09, n010");
  EXPECT_EQ(ranges_of({"a1", "b2", "login", "login"}), "a1, b2, login, login");
  EXPECT_EQ(ranges_of({"10.0.0.1", "10.0.0.2"}), "10.0.0.1-10.0.0.2");
  EXPECT_EQ(ranges_of({"n3", "n2", "n1"}), "n3, n2, n1");
  EXPECT_EQ(ranges_of({"n18446744073709551615", "n0", "n"}), "n18446744073709551615, n0, n");
  EXPECT_EQ(ranges_of({}), "");
}

TEST(TopoHosts, ThatLookAlikeAreShownOnce) {
  std::vector<AskedHost> hosts = {answered(node("n1")), answered(node("fat")), answered(node("n2")),
                                  answered(node("n3"))};
  hosts[1].map.usable_cores = 1;
  // Less memory than the page shows is no difference.
  hosts[2].map.topology.numa_nodes[0].bytes -= 4096;
  hosts.push_back(
      {.error = "host n4 is off", .map = {.host = "n4", .topology = {}, .devices = {}}});
  std::vector<HostMap> maps = alike(hosts);
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(maps[0].host, "3 hosts (n1-n3)");
  EXPECT_EQ(maps[1].host, "fat");
  EXPECT_EQ(page(maps[0])[0], "3 hosts (n1-n3): 2 sockets, 2 NUMA nodes");
  const std::string svg = picture(maps);
  EXPECT_THAT(svg, AllOf(HasSubstr("3 hosts (n1-n3): a square"), HasSubstr("fat: a square")));
  EXPECT_EQ(svg.find("<svg "), svg.rfind("<svg "));
  // What the page, the matrix or the picture shows is a difference.
  hosts[2].map.devices[3].model = "25000 Mb/s, MTU 9000, down";
  hosts[3].map.devices[0].pci = "0000:17:00.0";
  EXPECT_EQ(alike(hosts).size(), 4U);
  hosts[3].map = node("n3");
  hosts[3].map.devices[2].nv_links.clear();
  EXPECT_EQ(alike(hosts).size(), 4U);
  hosts[3].map = node("n3");
  hosts[3].map.topology.cores[1].cpus = {2};
  EXPECT_EQ(alike(hosts).size(), 4U);
  EXPECT_THAT(alike({}), IsEmpty());
}

TEST(TopoHosts, LongListsOfNamesStayInThePicture) {
  std::vector<AskedHost> hosts;
  for (int i = 0; i < 40; ++i) hosts.push_back(answered(node(fmt::format("host{}", 2 * i))));
  const std::string svg = picture(alike(hosts));
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.find("host") == std::string::npos || line.size() < 100) << line;
  }
  EXPECT_THAT(svg, AllOf(HasSubstr("40 hosts (host0,"), HasSubstr("host78):")));
}

TEST(TopoHosts, AnswersHaveTheNameUnderWhichTheHostWasAsked) {
  remote::HostAnswer answer{.host = "10.0.0.1", .text = json(node("n1")), .error = {}};
  const AskedHost good = map_in(answer);
  EXPECT_EQ(good.map.host, "10.0.0.1");
  EXPECT_EQ(good.error, "");
  answer.text = "{}";
  const AskedHost bad = map_in(answer);
  EXPECT_THAT(bad.error, AllOf(HasSubstr("host 10.0.0.1: its answer is not understood"),
                               HasSubstr("\"host\" is missing")));
  answer.error = "host 10.0.0.1 is off";
  EXPECT_EQ(map_in(answer).error, answer.error);
  const auto all = json_object::parse(json({good, bad}));
  ASSERT_EQ(all["hosts"].size(), 2U);
  EXPECT_EQ(all["hosts"][0]["host"], "10.0.0.1");
  EXPECT_EQ(all["hosts"][0]["error"], nullptr);
  EXPECT_EQ(all["hosts"][1]["host"], "10.0.0.1");
  EXPECT_EQ(all["hosts"][1]["error"], bad.error);
  EXPECT_FALSE(all["hosts"][1].contains("devices"));
  // A host's entry is a map like that of the host alone.
  EXPECT_EQ(json(read_map(all["hosts"][0].dump())), json(good.map));
}

struct Shown {
  int code = 0;
  std::string out;
  std::string err;
};

Shown shown(const tests::SshHosts& hosts, const std::string& names,
            const std::vector<std::string>& form) {
  std::vector<std::string> argv = {
      tests::program("dlrun"), "topo", "--ssh", hosts.ssh(), "--hosts", names};
  argv.insert(argv.end(), form.begin(), form.end());
  tests::Process process(hosts.from_front(argv));
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

// The hosts of these tests have networks of their own, and everything else of this machine.
TEST(TopoHosts, AreAskedBySshInEachForm) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const Shown page = shown(hosts, "a,b", {});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_TRUE(page.out.starts_with("2 hosts (a, b): ")) << page.out;
  const Shown matrix = shown(hosts, "a,b", {"-m"});
  EXPECT_EQ(matrix.code, 0) << matrix.err;
  EXPECT_TRUE(matrix.out.starts_with("2 hosts (a, b):\n")) << matrix.out;
  EXPECT_THAT(matrix.out, HasSubstr("CPU affinity"));
  const Shown svg = shown(hosts, "a,b", {"--svg"});
  EXPECT_THAT(svg.out, AllOf(HasSubstr("2 hosts (a, b): a square"), HasSubstr("</svg>")));
  const auto all = json_object::parse(shown(hosts, "b,a", {"--json"}).out);
  EXPECT_EQ(all["hosts"][0]["host"], "b");
  EXPECT_EQ(all["hosts"][1]["host"], "a");
  EXPECT_GE(all["hosts"][1]["cores"].size(), 1U);
}

TEST(TopoHosts, ThatDoNotAnswerAreNamed) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(1);
  const Shown one = shown(hosts, "nowhere,a", {});
  EXPECT_EQ(one.code, 1);
  EXPECT_TRUE(one.out.starts_with("a: ")) << one.out;
  EXPECT_THAT(one.err, HasSubstr("dlrun: host nowhere: there is no host of this name"));
  const Shown object = shown(hosts, "nowhere,a", {"--json"});
  EXPECT_EQ(object.code, 1);
  const auto all = json_object::parse(object.out);
  EXPECT_THAT(all["hosts"][0]["error"].get<std::string>(), HasSubstr("host nowhere: "));
  EXPECT_EQ(all["hosts"][1]["error"], nullptr);
  const Shown none = shown(hosts, "nowhere", {});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.out, "");
}

TEST(TopoHosts, WithAnotherAnswerAreOneSentence) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(1, {.sshd = "ForceCommand echo '{\"host\":\"\\u001b[2J\"}'\n"});
  const Shown page = shown(hosts, "a", {});
  EXPECT_EQ(page.code, 1);
  EXPECT_THAT(page.err, AllOf(HasSubstr("dlrun: host a: its answer is not understood"),
                              HasSubstr(" is missing"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(page.out, "");
}

}  // namespace
}  // namespace dl::launcher::topo
