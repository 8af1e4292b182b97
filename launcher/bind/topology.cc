#include "launcher/bind/topology.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

constexpr const char* kHwlocLibrary = "libhwloc.so.15";

// The functions of hwloc that are used. hwloc 2.x keeps their binary interface.
struct Hwloc {
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_set_synthetic) set_synthetic = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_get_type_depth) depth_of = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) count = nullptr;
  decltype(&hwloc_get_obj_by_depth) object = nullptr;
  decltype(&hwloc_bitmap_isset) is_set = nullptr;
  decltype(&hwloc_bitmap_intersects) intersects = nullptr;

  explicit Hwloc(std::string_view user) {
    void* const library = ::dlopen(kHwlocLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      throw_error(ErrorKind::kNotFound,
                  "{} needs hwloc (Debian's package libhwloc15), which cannot be opened: {}", user,
                  why == nullptr ? "no reason is given" : why);
    }
    const auto find = [library, user](const char* symbol, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, symbol));
      DL_CHECK(into != nullptr, kNotFound, "{} needs hwloc 2: {} has no {}", user, kHwlocLibrary,
               symbol);
    };
    find("hwloc_topology_init", init);
    find("hwloc_topology_destroy", destroy);
    find("hwloc_topology_set_synthetic", set_synthetic);
    find("hwloc_topology_load", load);
    find("hwloc_get_type_depth", depth_of);
    find("hwloc_get_nbobjs_by_depth", count);
    find("hwloc_get_obj_by_depth", object);
    find("hwloc_bitmap_isset", is_set);
    find("hwloc_bitmap_intersects", intersects);
  }
};

// The index of the first object at `depth` that shares CPUs with `core`; 0 if there is none.
template <typename Number>
int holder(const Hwloc& hwloc, hwloc_topology_t topology, int depth, hwloc_obj_t core,
           Number number) {
  const unsigned count = hwloc.count(topology, depth);
  for (unsigned i = 0; i < count; ++i) {
    const hwloc_obj_t object = hwloc.object(topology, depth, i);
    if (hwloc.intersects(object->cpuset, core->cpuset) != 0) return number(*object);
  }
  return 0;
}

std::vector<std::string> read_sockets(const Hwloc& hwloc, hwloc_topology_t topology, int depth) {
  std::vector<std::string> names;
  for (unsigned i = 0; depth >= 0 && i < hwloc.count(topology, depth); ++i) {
    const char* const name =
        hwloc_obj_get_info_by_name(hwloc.object(topology, depth, i), "CPUModel");
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

std::vector<NumaNode> read_numa_nodes(const Hwloc& hwloc, hwloc_topology_t topology,
                                      int socket_depth) {
  std::vector<NumaNode> nodes;
  const int depth = HWLOC_TYPE_DEPTH_NUMANODE;
  for (unsigned i = 0; i < hwloc.count(topology, depth); ++i) {
    const hwloc_obj_t object = hwloc.object(topology, depth, i);
    NumaNode node{.number = static_cast<int>(object->os_index),
                  .bytes = object->attr->numanode.local_memory};
    if (socket_depth >= 0) {
      node.socket = holder(hwloc, topology, socket_depth, object,
                           [](const hwloc_obj& o) { return static_cast<int>(o.logical_index); });
    }
    nodes.push_back(node);
  }
  return nodes;
}

std::vector<CacheLevel> read_caches(const Hwloc& hwloc, hwloc_topology_t topology) {
  std::vector<CacheLevel> caches;
  constexpr hwloc_obj_type_t kTypes[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                         HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};
  for (int level = 1; const hwloc_obj_type_t type : kTypes) {
    const int depth = hwloc.depth_of(topology, type);
    if (depth >= 0) {
      caches.push_back({level, hwloc.object(topology, depth, 0)->attr->cache.size,
                        static_cast<int>(hwloc.count(topology, depth))});
    }
    ++level;
  }
  return caches;
}

}  // namespace

Topology read_topology(const std::vector<int>& cpus, const std::string& synthetic,
                       std::string_view user) {
  const Hwloc hwloc(user);
  hwloc_topology_t raw = nullptr;
  DL_CHECK(hwloc.init(&raw) == 0, kIo, "{}: hwloc: {}", user, std::strerror(errno));
  const std::unique_ptr<hwloc_topology, decltype(hwloc.destroy)> owner(raw, hwloc.destroy);
  DL_CHECK(synthetic.empty() || hwloc.set_synthetic(raw, synthetic.c_str()) == 0, kInvalidArgument,
           "`{}` is no machine in hwloc's notation", synthetic);
  DL_CHECK(hwloc.load(raw) == 0, kIo, "{}: hwloc cannot read this machine: {}", user,
           std::strerror(errno));

  // Some virtual machines show hardware threads and no cores: then each counts as one.
  int core_depth = hwloc.depth_of(raw, HWLOC_OBJ_CORE);
  if (core_depth < 0) core_depth = hwloc.depth_of(raw, HWLOC_OBJ_PU);
  const int socket_depth = hwloc.depth_of(raw, HWLOC_OBJ_PACKAGE);
  Topology topology{.cores = {},
                    .sockets = read_sockets(hwloc, raw, socket_depth),
                    .numa_nodes = read_numa_nodes(hwloc, raw, socket_depth),
                    .caches = read_caches(hwloc, raw)};
  std::size_t found = 0;
  for (unsigned i = 0; i < hwloc.count(raw, core_depth); ++i) {
    const hwloc_obj_t object = hwloc.object(raw, core_depth, i);
    Core core;
    if (socket_depth >= 0) {
      core.socket = holder(hwloc, raw, socket_depth, object,
                           [](const hwloc_obj& o) { return static_cast<int>(o.logical_index); });
    }
    core.numa_node = holder(hwloc, raw, HWLOC_TYPE_DEPTH_NUMANODE, object,
                            [](const hwloc_obj& o) { return static_cast<int>(o.os_index); });
    for (const int cpu : cpus) {
      if (hwloc.is_set(object->cpuset, static_cast<unsigned>(cpu)) != 0) core.cpus.push_back(cpu);
    }
    found += core.cpus.size();
    if (!core.cpus.empty()) topology.cores.push_back(std::move(core));
  }
  DL_CHECK(found == cpus.size(), kIo,
           "{}: hwloc shows {} of the {} CPUs that this process may run on", user, found,
           cpus.size());
  return topology;
}

}  // namespace dl::launcher
