#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "launcher/pmi/pmix_server.h"
#include "launcher/pmi/which_mpi.h"

namespace dl::launcher {
namespace {

constexpr const char* kUnserved =
    "--mpi none starts it all the same, each rank as a job of its own";

void check_helper(const std::string& why) {
  DL_CHECK(::access(pmix_helper().c_str(), X_OK) == 0, kInvalidArgument,
           "{}, which takes {}: dlrun was built without libpmix (Debian's libpmix-dev), so start "
           "the program with `mpirun -n N` or `srun --mpi=pmix`; {}",
           why, pmix_helper(), kUnserved);
}

std::string_view name_of(MpiKind kind) {
  return kind == MpiKind::kMpich ? "MPICH" : "Open MPI";
}

std::string linked_to(const Program& program, const WhichMpi& mpi) {
  return fmt::format("{} is linked to {} ({})", program.path, name_of(mpi.kind), mpi.library);
}

// What the ranks of a program have as LD_LIBRARY_PATH by -x; empty: what dlrun has.
std::string library_path_of(const App& app) {
  std::string path;
  for (const Exported& one : app.exports) {
    if (one.name == "LD_LIBRARY_PATH" && one.value) path = *one.value;
  }
  return path;
}

WhichMpi mpi_of(const Program& program, const App& app) {
  return program.can_be_read ? which_mpi(program.path, library_path_of(app)) : WhichMpi();
}

}  // namespace

Mpi mpi_to_serve(const Options& options, std::span<const Program> programs) {
  if (options.job.mpi == Mpi::kPmix) check_helper("--mpi is pmix");
  if (options.job.mpi != Mpi::kAuto) return options.job.mpi;
  WhichMpi mpi;
  std::string linked;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    const WhichMpi own = mpi_of(program, options.job.apps.at(i));
    if (own.kind == MpiKind::kNone) continue;  // it may start a program of the MPI
    const std::string text = linked_to(program, own);
    DL_CHECK(mpi.kind == MpiKind::kNone || mpi.kind == own.kind, kInvalidArgument,
             "{}, and {}: the ranks of one job are processes of one MPI; {}", linked, text,
             kUnserved);
    if (mpi.kind == MpiKind::kNone) linked = text;
    mpi = own;
  }
  if (mpi.kind == MpiKind::kNone) return Mpi::kNone;
  if (mpi.kind == MpiKind::kOpenMpi) {
    check_helper(linked);
    return Mpi::kPmix;
  }
  DL_CHECK(options.where.nnodes == 1, kInvalidArgument,
           "{}, whose processes dlrun joins on one node only: start it on {} nodes with `mpirun "
           "-n N --hosts ...` or `srun --mpi=pmi2`; {}",
           linked, options.where.nnodes, kUnserved);
  return Mpi::kPmi1;
}

std::vector<std::string> unserved_mpis(const Options& options, std::span<const Program> programs) {
  const Mpi mpi = options.job.mpi;
  std::vector<std::string> lines;
  if (mpi != Mpi::kPmi1 && mpi != Mpi::kPmix) return lines;
  const bool is_pmi1 = mpi == Mpi::kPmi1;
  const MpiKind served = is_pmi1 ? MpiKind::kMpich : MpiKind::kOpenMpi;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    const WhichMpi own = mpi_of(program, options.job.apps.at(i));
    if (own.kind == MpiKind::kNone || own.kind == served) continue;
    std::string line = fmt::format(
        "--mpi {} serves programs of {}, and {}: each of its ranks will be an MPI job of its own; "
        "write --mpi {}, or leave --mpi out",
        is_pmi1 ? "pmi1" : "pmix", name_of(served), linked_to(program, own),
        is_pmi1 ? "pmix" : "pmi1");
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace dl::launcher
