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

  Hwloc() {
    void* const library = ::dlopen(kHwlocLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      throw_error(ErrorKind::kNotFound,
                  "--bind needs hwloc (Debian's package libhwloc15), which cannot be opened: {}",
                  why == nullptr ? "no reason is given" : why);
    }
    const auto find = [library](const char* symbol, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, symbol));
      DL_CHECK(into != nullptr, kNotFound, "--bind needs hwloc 2: {} has no {}", kHwlocLibrary,
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

}  // namespace

Topology read_topology(const std::vector<int>& cpus, const std::string& synthetic) {
  const Hwloc hwloc;
  hwloc_topology_t raw = nullptr;
  DL_CHECK(hwloc.init(&raw) == 0, kIo, "--bind: hwloc: {}", std::strerror(errno));
  const std::unique_ptr<hwloc_topology, decltype(hwloc.destroy)> owner(raw, hwloc.destroy);
  DL_CHECK(synthetic.empty() || hwloc.set_synthetic(raw, synthetic.c_str()) == 0, kInvalidArgument,
           "`{}` is no machine in hwloc's notation", synthetic);
  DL_CHECK(hwloc.load(raw) == 0, kIo, "--bind: hwloc cannot read this machine: {}",
           std::strerror(errno));

  // Some virtual machines show hardware threads and no cores: then each counts as one.
  int core_depth = hwloc.depth_of(raw, HWLOC_OBJ_CORE);
  if (core_depth < 0) core_depth = hwloc.depth_of(raw, HWLOC_OBJ_PU);
  const int socket_depth = hwloc.depth_of(raw, HWLOC_OBJ_PACKAGE);
  Topology topology;
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
           "--bind: hwloc shows {} of the {} CPUs that this process may run on", found,
           cpus.size());
  return topology;
}

}  // namespace dl::launcher
