
#include <fmt/format.h>
#include <hwy/targets.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <sched.h>

#include <iterator>
#include <thread>

#include "core/base/env.h"
#include "core/base/text/printable.h"
#include "core/device/cpu_bfloat16.h"
#include "core/device/parallel.h"

namespace dl {
namespace {

// _OPENMP is the year and month of the specification.
std::string_view openmp_release() noexcept {
  switch (_OPENMP) {
    case 201307:
      return "4.0";
    case 201511:
      return "4.5";
    case 201811:
      return "5.0";
    case 202011:
      return "5.1";
    case 202111:
      return "5.2";
    default:
      return "another one";
  }
}

int usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

}  // namespace

std::string parallel_info() {
  using env::Var;
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  };
  line("dlrun/Parallel:");
  line("\tdl::num_threads() : {}", num_threads());
  line("OpenMP {} (a.k.a. OpenMP {})", _OPENMP, openmp_release());
  line("\tomp_get_max_threads() : {}", omp_get_max_threads());
  line("\tomp_get_proc_bind() : {}", static_cast<int>(omp_get_proc_bind()));
  const dnnl_version_t* const dnnl = dnnl_version();
  line("oneDNN v{}.{}.{} (Git Hash {})", dnnl->major, dnnl->minor, dnnl->patch, dnnl->hash);
  line("bfloat16 products : {}", cpu_has_bfloat16()
                                     ? "in oneDNN, with the instructions of this CPU"
                                     : "as float32, this CPU has no instructions for them");
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  line("Highway's vectors on this CPU : {}", hwy::TargetName(targets & -targets));
  line("std::thread::hardware_concurrency() : {}", std::thread::hardware_concurrency());
  line("CPUs that this process may use : {}", usable_cpus());
  line("Environment variables:");
  for (const Var var : {Var::kOmpNumThreads, Var::kOmpPlaces, Var::kOmpProcBind,
                        Var::kGompCpuAffinity, Var::kKmpAffinity, Var::kCpus}) {
    line("\t{} : {}", env::name_of(var),
         env::is_set(var) ? printable(env::get(var).value_or("")) : "[not set]");
  }
  line("dlrun parallel backend: OpenMP");
  return text;
}

}  // namespace dl
