#include <fmt/core.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/cli/subcommand/subcommand.h"

namespace dl::launcher::autopsy {

int run(const SubcommandLine& line) {
  DL_CHECK(!line.operands.empty(), kInvalidArgument,
           "autopsy wants a directory: dlrun autopsy [--json] DIR");
  Case found;
  for (const std::string& path : line.operands) found.add_path(path);
  if (line.has("--json")) {
    fmt::print("{}\n", json(found));
  } else {
    for (const std::string& text : page(found)) {
      fmt::print(found.ranks.empty() ? stderr : stdout, "{}{}\n",
                 found.ranks.empty() ? "dlrun: autopsy: " : "", printable(text));
    }
  }
  return found.ranks.empty() ? 1 : 0;
}

}  // namespace dl::launcher::autopsy
