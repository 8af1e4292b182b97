#include "collectives/nccl/library/choice.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>

#include "collectives/join/roster.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/device/cuda/module/library.h"

namespace dl::collectives::nccl {
namespace {

constexpr int kMultiRankGpu = 23003;  // from here on NCCL lets several ranks share a GPU

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

const Module& load() {
  void* const library = cuda::open_library("nccl", "libdlrun_nccl.so");
  const auto get = reinterpret_cast<GetModule>(::dlsym(library, kModuleSymbol));
  const Module* const module = get == nullptr ? nullptr : get();
  DL_CHECK(module != nullptr && module->version == kModuleVersion, kNotFound,
           "nccl: libdlrun_nccl.so belongs to another version of dlrun");
  int found = 0;
  const int code = module->get_version(&found);
  // The structures that init() passes to NCCL grow from version to version.
  DL_CHECK(code == kSuccess && found / 100 >= module->built_with / 100, kNotFound,
           "nccl: the NCCL that was found is {}, wanted {} or newer", version_text(found),
           version_text(module->built_with));
  return *module;
}

}  // namespace

std::string Offer::text() const {
  return fmt::format("{} {} {} {}", gpu, version, shares ? 1 : 0, lacks);
}

Offer Offer::parse(const std::string& text) {
  Offer offer;
  const std::size_t version = text.find(' ');
  const std::size_t shares = text.find(' ', version + 1);
  const std::size_t lacks = shares == std::string::npos ? shares : text.find(' ', shares + 1);
  DL_CHECK(version != std::string::npos && lacks != std::string::npos, kParse,
           "cannot parse a rank's GPU record `{}`", text);
  offer.gpu = text.substr(0, version);
  offer.version = std::stoi(text.substr(version + 1));
  offer.shares = text[shares + 1] == '1';
  offer.lacks = text.substr(lacks + 1);
  return offer;
}

Decision decide(std::span<const Offer> offers) {
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].lacks.empty()) {
      return {.obstacle = fmt::format("rank {}: {}", r, offers[r].lacks)};
    }
  }
  for (std::size_t r = 1; r < offers.size(); ++r) {
    DL_CHECK(offers[r].version == offers[0].version, kMismatch,
             "rank {} has NCCL {}, rank 0 has {}; give all ranks the same", r,
             version_text(offers[r].version), version_text(offers[0].version));
  }
  std::map<std::string, std::size_t> first;
  Decision decision;
  decision.is_shared = std::ranges::all_of(offers, [](const Offer& offer) { return offer.shares; });
  for (std::size_t r = 0; r < offers.size(); ++r) {
    const auto [owner, is_new] = first.emplace(offers[r].gpu, r);
    if (is_new) continue;
    decision.is_shared = true;
    for (const std::size_t each : {owner->second, r}) {
      if (offers[each].shares) continue;
      return {.obstacle = fmt::format(
                  "ranks {} and {} share {} (DLRUN_NCCL_SHARED_GPU=1 uses NCCL all the same, to "
                  "test it)",
                  owner->second, r, owner->first)};
    }
  }
  return decision;
}

const Module& open_module() {
  static const Module& module = load();
  return module;
}

void prepare_sharing(int version) {
  using env::Var;
  env::set_unless_set(Var::kNcclNet, "Socket");
  env::set_unless_set(Var::kNcclSocketIfname, "lo");
  env::set_unless_set(Var::kNcclIbDisable, "1");
  env::set_unless_set(Var::kNcclMnnvlEnable, "0");
  if (version >= kMultiRankGpu) {
    env::set_unless_set(Var::kNcclMultiRankGpu, "1");
  } else {
    // NCCL identifies a host by this name: ranks that seem to be on different hosts may share a
    // GPU. The name must be the same in all groups of a process, so it does not contain the rank.
    const Identity own = this_process(0, "");
    env::set_unless_set(Var::kNcclHostId, fmt::format("dlrun-{}-{}", own.host, own.pid));
  }
}

}  // namespace dl::collectives::nccl
