#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kKindWords[] = {"gpu", "network", "infiniband"};

// More than any machine has, and few enough that each form of a map stays small.
constexpr std::size_t kMostEntries = 4096;
constexpr std::size_t kMostDevices = 512;
constexpr std::size_t kMostText = 4096;
constexpr int kMostNumber = 1 << 20;  // of a CPU, a socket, a NUMA node
constexpr int kMostLinks = 256;       // NVLinks of a GPU to another one

// One member of a host's map, which throws kParse with its path if it is not as json() writes it.
class Member {
 public:
  Member(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  [[noreturn]] void refuse() const {
    throw_error(ErrorKind::kParse, "{} is not as dlrun topo writes it", quoted_name(path_));
  }
  void require(bool is_right) const {
    if (!is_right) refuse();
  }
  Member at(const char* name) const {
    const std::string path = path_.empty() ? name : fmt::format("{}.{}", path_, name);
    if (!json_->is_object() || !json_->contains(name)) {
      throw_error(ErrorKind::kParse, "{} is missing", quoted_name(path));
    }
    return {json_->at(name), path};
  }
  bool is_null() const { return json_->is_null(); }
  int number(int least, int most) const {
    require(json_->is_number_integer());
    // What does not fit into 64 signed bits is a number without a sign.
    const bool is_small = !json_->is_number_unsigned() ||
                          json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostNumber);
    require(is_small && json_->get<std::int64_t>() >= least && json_->get<std::int64_t>() <= most);
    return json_->get<int>();
  }
  std::uint64_t bytes() const {
    require(json_->is_number_unsigned());
    return json_->get<std::uint64_t>();
  }
  double real() const {
    require(json_->is_number());
    const auto value = json_->get<double>();
    require(std::isfinite(value) && value >= 0 && value <= kMostNumber);
    return value;
  }
  std::string text() const {
    require(json_->is_string());
    auto text = json_->get<std::string>();
    require(text.size() <= kMostText && text.find('\n') == std::string::npos);
    return text;
  }
  // `read` makes an entry of a Member.
  template <typename Read>
  auto list(std::size_t most, Read read) const {
    require(json_->is_array() && json_->size() <= most);
    std::vector<decltype(read(*this))> entries;
    for (std::size_t i = 0; i < json_->size(); ++i) {
      entries.push_back(read(Member((*json_)[i], fmt::format("{}[{}]", path_, i))));
    }
    return entries;
  }
  std::vector<std::string> texts() const {
    return list(kMostEntries, [](const Member& entry) { return entry.text(); });
  }
  std::vector<int> cpus() const {
    std::vector<int> cpus =
        list(kMostEntries, [](const Member& entry) { return entry.number(0, kMostNumber); });
    require(std::ranges::adjacent_find(cpus, std::greater_equal()) == cpus.end());
    return cpus;
  }
  std::vector<std::string> names() const {
    require(json_->is_object() && json_->size() <= kMostDevices);
    std::vector<std::string> names;
    for (const auto& [name, value] : json_->items()) names.push_back(name);
    return names;
  }

 private:
  const Json* json_;
  std::string path_;
};

Json json_of(const Core& core) {
  return {{"socket", core.socket}, {"numa_node", core.numa_node}, {"cpus", core.cpus}};
}
Core read_core(const Member& member) {
  Core core{.socket = member.at("socket").number(0, kMostNumber),
            .numa_node = member.at("numa_node").number(0, kMostNumber),
            .cpus = member.at("cpus").cpus()};
  member.at("cpus").require(!core.cpus.empty());
  return core;
}

Json json_of(const NumaNode& node) {
  return {{"number", node.number}, {"socket", node.socket}, {"bytes", node.bytes}};
}
NumaNode read_node(const Member& member) {
  return {.number = member.at("number").number(0, kMostNumber),
          .socket = member.at("socket").number(0, kMostNumber),
          .bytes = member.at("bytes").bytes()};
}

Json json_of(const CacheLevel& cache) {
  return {{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}};
}
CacheLevel read_cache(const Member& member) {
  return {.level = member.at("level").number(1, kMostNumber),
          .bytes = member.at("bytes").bytes(),
          .count = member.at("count").number(0, kMostNumber)};
}

Json json_of(const Device& device, const std::vector<Device>& devices) {
  Json distances = Json::object();
  Json nv_links = Json::object();
  for (const Device& other : devices) {
    distances[other.name] = word(distance_between(device, other));
    if (const int links = nv_links_between(device, other)) nv_links[other.name] = links;
  }
  return {{"name", device.name},
          {"kind", kKindWords[static_cast<std::size_t>(device.kind)]},
          {"model", device.model},
          {"pci", device.pci},
          {"bridges", device.bridges},
          {"numa_node", device.numa_node < 0 ? Json() : Json(device.numa_node)},
          {"cpus", device.cpus},
          {"distances", distances},
          {"nv_links", nv_links}};
}
// Without NVLinks. The distances follow from the bridges.
Device read_device(const Member& member) {
  const Member kind = member.at("kind");
  const auto* const found = std::ranges::find(kKindWords, kind.text());
  kind.require(found != std::end(kKindWords));
  const Member node = member.at("numa_node");
  return {.kind = static_cast<DeviceKind>(found - kKindWords),
          .name = member.at("name").text(),
          .model = member.at("model").text(),
          .pci = member.at("pci").text(),
          .bridges = member.at("bridges").texts(),
          .numa_node = node.is_null() ? -1 : node.number(0, kMostNumber),
          .cpus = member.at("cpus").cpus()};
}
// All as if they were direct: the map tells how many there are, and not what is between.
std::vector<std::string> read_nv_links(const Member& member, const std::vector<Device>& devices) {
  std::vector<std::string> ends;
  for (const std::string& name : member.names()) {
    const auto other = std::ranges::find(devices, name, &Device::name);
    member.require(other != devices.end() && !other->pci.empty());
    ends.insert(ends.end(), static_cast<std::size_t>(member.at(name.c_str()).number(1, kMostLinks)),
                other->pci);
  }
  return ends;
}

template <typename Part>
Json list_of(const std::vector<Part>& parts) {
  Json list = Json::array();
  for (const Part& part : parts) list.push_back(json_of(part));
  return list;
}

// Its members behind "host".
void add_map(Json& all, const HostMap& map) {
  Json devices = Json::array();
  for (const Device& device : map.devices) devices.push_back(json_of(device, map.devices));
  all["usable_cores"] = map.usable_cores;
  all["sockets"] = map.topology.sockets;
  all["numa_nodes"] = list_of(map.topology.numa_nodes);
  all["cores"] = list_of(map.topology.cores);
  all["caches"] = list_of(map.topology.caches);
  all["devices"] = std::move(devices);
}

// What is no UTF-8 must not make the output unreadable.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace

std::string json(const HostMap& map) {
  Json all = {{"host", map.host}};
  add_map(all, map);
  return text_of(all);
}

std::string json(const std::vector<AskedHost>& hosts) {
  Json list = Json::array();
  for (const AskedHost& host : hosts) {
    Json one = {{"host", host.map.host}, {"error", host.error.empty() ? Json() : Json(host.error)}};
    if (host.error.empty()) add_map(one, host.map);
    list.push_back(std::move(one));
  }
  return text_of({{"hosts", std::move(list)}});
}

HostMap read_map(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  DL_CHECK(!json.is_discarded(), kParse, "it is no JSON");
  const Member all(json, "");
  HostMap map{.host = all.at("host").text(),
              .topology = {.cores = all.at("cores").list(kMostEntries, read_core),
                           .sockets = all.at("sockets").texts(),
                           .numa_nodes = all.at("numa_nodes").list(kMostEntries, read_node),
                           .caches = all.at("caches").list(kMostEntries, read_cache)},
              .usable_cores = all.at("usable_cores").real(),
              .devices = all.at("devices").list(kMostDevices, read_device)};
  std::set<int> numbers;
  for (const NumaNode& node : map.topology.numa_nodes) {
    all.at("numa_nodes").require(numbers.insert(node.number).second);
  }
  const auto links = all.at("devices").list(kMostDevices, [&](const Member& device) {
    return read_nv_links(device.at("nv_links"), map.devices);
  });
  for (std::size_t i = 0; i < links.size(); ++i) map.devices[i].nv_links = links[i];
  return map;
}

}  // namespace dl::launcher::topo
