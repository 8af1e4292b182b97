#include "launcher/cli/torchrun_environment.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/cli/refused_options.h"

namespace dl::launcher {
namespace {

using env::Var;

constexpr std::string_view kPrefix = "PET_";

struct Taken {
  std::string_view option;
  Var var;
};
constexpr Taken kTaken[] = {
    {"--nproc-per-node", Var::kPetNproc},     {"--nnodes", Var::kPetNnodes},
    {"--node-rank", Var::kPetNodeRank},       {"--rdzv-endpoint", Var::kPetRdzvEndpoint},
    {"--rdzv-id", Var::kPetRdzvId},           {"--rdzv-backend", Var::kPetRdzvBackend},
    {"--master-addr", Var::kPetMasterAddr},   {"--master-port", Var::kPetMasterPort},
    {"--max-restarts", Var::kPetMaxRestarts}, {"--log-dir", Var::kPetLogDir}};

// Torchrun takes 0 and 1.
bool flag(Var var) {
  const std::optional<std::int64_t> value = env::get_int(var);
  DL_CHECK(!value || *value == 0 || *value == 1, kInvalidArgument, "{} is `{}`, wanted 0 or 1",
           env::name_of(var), *value);
  return value.value_or(0) == 1;
}

// PET_RDZV_CONF: --rdzv-conf
std::string option_of(std::string_view variable) {
  std::string option = "--";
  for (const char c : variable.substr(kPrefix.size())) {
    option += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return option;
}

}  // namespace

TorchrunEnvironment torchrun_environment() {
  TorchrunEnvironment found;
  for (const Taken& taken : kTaken) {
    if (const std::optional<std::string> value = env::get(taken.var)) {
      found.options.push_back({taken.option, env::name_of(taken.var), *value});
    }
  }
  found.standalone = flag(Var::kPetStandalone);
  for (const Var var : {Var::kPetModule, Var::kPetRunPath}) {
    DL_CHECK(!flag(var), kInvalidArgument, "{}=1 of torchrun is not supported: {}",
             env::name_of(var), *instead_of(option_of(env::name_of(var))));
  }
  for (const std::string& name : env::names_with_prefix(kPrefix)) {
    if (name == env::name_of(Var::kPetModule) || name == env::name_of(Var::kPetRunPath)) continue;
    if (const std::optional<std::string_view> instead = instead_of(option_of(name))) {
      found.remarks.push_back(fmt::format("{} of torchrun is not used: {}", name, *instead));
    }
  }
  return found;
}

}  // namespace dl::launcher
