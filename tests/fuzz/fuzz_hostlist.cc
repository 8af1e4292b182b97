// The lists of SLURM's environment: every text is expanded or refused, within bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "launcher/slurm/hostlist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto hosts = dl::launcher::expand_hostlist(text);
    if (hosts.empty() || hosts.size() > dl::launcher::kMostHosts) std::abort();
    for (const auto& host : hosts) {
      if (host.empty() || host.size() > 255) std::abort();
    }
  } catch (const dl::Error&) {
  }
  try {
    const auto counts = dl::launcher::expand_counts(text);
    if (counts.empty() || counts.size() > dl::launcher::kMostHosts) std::abort();
  } catch (const dl::Error&) {
  }
  return 0;
}
