#include "launcher/cli/refused_options.h"

#include <fmt/core.h>

#include <algorithm>

namespace dl::launcher {
namespace {

struct Refused {
  std::string_view name;
  std::string_view instead;
};

constexpr Refused kRefused[] = {
    {"--rdzv-conf", "dlrun's rendezvous has --join-timeout and nothing else to set"},
    {"--monitor-interval", "the kernel tells dlrun of a rank's end; leave it out"},
    {"--start-method", "dlrun always starts programs, never functions; leave it out"},
    {"--event-log-handler", "dlrun writes no events yet"},
    {"--role", "all ranks have the role `default`; leave it out"},
    {"-m", "write `dlrun ... python -m MODULE`"},
    {"--module", "write `dlrun ... python -m MODULE`"},
    {"--run-path", "write `dlrun ... python SCRIPT`"},
    {"-r", "--log-dir DIR keeps both streams of every rank"},
    {"--redirects", "--log-dir DIR keeps both streams of every rank"},
    {"-t", "--log-dir DIR keeps both streams of every rank, and shows them too"},
    {"--tee", "--log-dir DIR keeps both streams of every rank, and shows them too"},
    {"--log-line-prefix-template",
     "lines begin with `[rank N] `, or with nothing under --no-prefix"},
    {"--local-ranks-filter", "--log-dir DIR keeps every rank's output in files of its own"},
    {"--duplicate-stdout-filters", "--log-dir DIR keeps every rank's output in files of its own"},
    {"--duplicate-stderr-filters", "--log-dir DIR keeps every rank's output in files of its own"},
    {"--local-addr", "give node 0's address in --rdzv-endpoint"},
    {"--logs-specs", "--log-dir DIR keeps both streams of every rank"},
    {"--numa-binding", "--bind even gives each rank its own share of the CPUs"},
    {"--signals-to-handle", "dlrun passes on SIGINT, SIGTERM, SIGHUP and SIGQUIT"},
    {"--shutdown-timeout", "it is called --grace SECONDS here"},
    {"--virtual-local-rank", "LOCAL_RANK is always the rank's number on its node"},
    {"--print-completion", "dlrun has no completion script yet"},
};

}  // namespace

std::optional<std::string_view> instead_of(std::string_view option) {
  for (const Refused& refused : kRefused) {
    if (option == refused.name) return refused.instead;
  }
  return std::nullopt;
}

std::string refusal_of(std::string_view typed) {
  std::string name(typed.substr(0, typed.find('=')));
  std::replace(name.begin() + std::min<std::ptrdiff_t>(2, std::ssize(name)), name.end(), '_', '-');
  if (const std::optional<std::string_view> instead = instead_of(name)) {
    return fmt::format("{} of torchrun is not supported: {}", name, *instead);
  }
  return fmt::format("there is no option {}; `dlrun --help` lists them all", name);
}

}  // namespace dl::launcher
