#include "collectives/mpi/module/library.h"

#include <dlfcn.h>

#include <string>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/module_folders.h"

namespace dl::collectives::mpi {
namespace {

using env::Var;

constexpr std::string_view kOpenMpi = "openmpi";
constexpr std::string_view kMpich = "mpich";

std::string file_of(std::string_view mpi) {
  return fmt::format("libdlrun_mpi_{}.so", mpi);
}

std::optional<int> size_from(Var var) {
  const auto size = env::get_int(var);
  return size ? std::optional(static_cast<int>(*size)) : std::nullopt;
}

std::optional<Starter> found_starter() {
  // dlrun sets OMPI_* alone, for programs that read them.
  const bool is_dlruns = env::get(Var::kJobId) && !env::get(Var::kPmixRank);
  if (env::get(Var::kOmpiRank) && !is_dlruns) {
    return Starter{"mpirun (Open MPI)", kOpenMpi, size_from(Var::kOmpiSize)};
  }
  // A PMIx server without OMPI_*: srun --mpi=pmix.
  if (env::get(Var::kPmixRank)) {
    return Starter{"a PMIx server", kOpenMpi, size_from(Var::kSlurmStepTasks)};
  }
  if (env::get(Var::kPmiRank)) return Starter{"mpirun (PMI)", kMpich, size_from(Var::kPmiSize)};
  return std::nullopt;
}

bool is_there(std::string_view mpi) {
  try {
    find_module("mpi", file_of(mpi));
    return true;
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void refuse_without_starter() {
  const std::string ranks = env::get(Var::kWorldSize).value_or("N");
  constexpr std::string_view kElse =
      "use `mpirun -n {} PROGRAM` (Open MPI's or MPICH's), or another backend, which needs no MPI";
  if (env::get(Var::kNodeId) || env::get(Var::kStore)) {
    throw_error(
        ErrorKind::kInvalidArgument,
        "backend mpi: dlrun started these ranks and MPI knows nothing of them, so that each "
        "would be a world of one; {}",
        fmt::format(fmt::runtime(kElse), ranks));
  }
  if (env::get(Var::kSlurmStepTasks)) {
    throw_error(
        ErrorKind::kInvalidArgument,
        "backend mpi: srun gave MPI no way to find the other ranks, so that each would be a "
        "world of one; use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or {}",
        fmt::format(fmt::runtime(kElse), *env::get(Var::kSlurmStepTasks)));
  }
  throw_error(ErrorKind::kInvalidArgument,
              "backend mpi: no MPI started this process, so that it would be a world of one; {}",
              fmt::format(fmt::runtime(kElse), ranks));
}

}  // namespace

Starter find_starter() {
  std::optional<Starter> starter = found_starter();
  if (!starter) refuse_without_starter();
  if (const auto wanted = env::get(Var::kMpi)) {
    DL_CHECK(*wanted == kOpenMpi || *wanted == kMpich, kInvalidArgument,
             "DLRUN_MPI={}, wanted {} or {}", *wanted, kOpenMpi, kMpich);
    starter->module = *wanted == kOpenMpi ? kOpenMpi : kMpich;
  }
  return *starter;
}

bool has_module() noexcept {
  try {
    const std::optional<Starter> starter = found_starter();
    for (const std::string_view mpi : {kOpenMpi, kMpich}) {
      if (starter && starter->module != mpi) continue;
      if (is_there(mpi)) return true;
    }
  } catch (const Error&) {  // a variable that is no number; init_process_group() says so
  }
  return false;
}

const Module& open_module(const Starter& starter) {
  const std::string path = find_module(
      fmt::format("backend mpi: {} started this process", starter.name), file_of(starter.module),
      "install that MPI's development package and build dlrun again, or start the program with the "
      "mpirun of an MPI that dlrun was built with");
  // Never unloaded: MPI leaves threads and handlers behind.
  void* const opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  DL_CHECK(opened != nullptr, kNotFound, "backend mpi: {}", ::dlerror());
  const auto get = reinterpret_cast<GetModule>(::dlsym(opened, kModuleSymbol));
  const Module* const module = get != nullptr ? get() : nullptr;
  DL_CHECK(module != nullptr && module->version == kModuleVersion, kMismatch,
           "backend mpi: {} belongs to another version of dlrun", path);
  return *module;
}

void check(const Module& mpi, int code, std::string_view what) {
  if (code == 0) return;
  char text[512];
  mpi.error_text(code, text, sizeof text);
  throw_error(ErrorKind::kConnection, "{}: {} says: {}", what, mpi.library, text);
}

}  // namespace dl::collectives::mpi
