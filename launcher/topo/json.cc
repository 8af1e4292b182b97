#include <nlohmann/json.hpp>

#include "core/base/text/printable.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* name_of(DeviceKind kind) {
  constexpr const char* kNames[] = {"gpu", "network", "infiniband"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string json(const HostMap& map) {
  Json cores = Json::array();
  for (const Core& core : map.topology.cores) {
    cores.push_back({{"socket", core.socket}, {"numa_node", core.numa_node}, {"cpus", core.cpus}});
  }
  Json nodes = Json::array();
  for (const NumaNode& node : map.topology.numa_nodes) {
    nodes.push_back({{"number", node.number}, {"socket", node.socket}, {"bytes", node.bytes}});
  }
  Json caches = Json::array();
  for (const CacheLevel& cache : map.topology.caches) {
    caches.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  Json devices = Json::array();
  for (const Device& device : map.devices) {
    Json distances = Json::object();
    Json nv_links = Json::object();
    for (const Device& other : map.devices) {
      distances[other.name] = word(distance_between(device, other));
      if (const int links = nv_links_between(device, other)) nv_links[other.name] = links;
    }
    devices.push_back({{"name", device.name},
                       {"kind", name_of(device.kind)},
                       {"model", device.model},
                       {"pci", device.pci},
                       {"bridges", device.bridges},
                       {"numa_node", device.numa_node < 0 ? Json() : Json(device.numa_node)},
                       {"cpus", device.cpus},
                       {"distances", distances},
                       {"nv_links", nv_links}});
  }
  const Json all = {{"host", map.host},
                    {"usable_cores", map.usable_cores},
                    {"sockets", map.topology.sockets},
                    {"numa_nodes", nodes},
                    {"cores", cores},
                    {"caches", caches},
                    {"devices", devices}};
  // What is no UTF-8 must not make the output unreadable.
  return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dl::launcher::topo
