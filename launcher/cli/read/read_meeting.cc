// Readers of the options for the meeting of nodes and ranks.
#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

constexpr int kDefaultPort = 29400;  // torchrun's

// Keys of --rdzv-conf that tune only torchrun's rendezvous.
constexpr std::string_view kKeysWithoutEffect[] = {
    "read_timeout",      "last_call_timeout",   "close_timeout",
    "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt",
    "store_type",        "use_libuv",           "cas_backoff_max_seconds",
    "shutdown_timeout"};

bool truth(std::string_view name, std::string_view key, std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"1", "true", "t", "yes", "y"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"0", "false", "f", "no", "n"}) {
    if (lower == no) return false;
  }
  throw_error(ErrorKind::kInvalidArgument, "{}: {} is `{}`, wanted true or false", name, key, text);
}

}  // namespace

void nnodes(Options& options, const Typed& typed) {
  const std::size_t colon = typed.value.find(':');  // torchrun's LEAST:MOST
  const std::string least = typed.value.substr(0, colon);
  DL_CHECK(colon == std::string::npos || typed.value.substr(colon + 1) == least, kInvalidArgument,
           "{} is `{}`: a job whose number of nodes changes is not supported; give one number",
           typed.name(), typed.value);
  options.where.nnodes = whole_number(typed.name(), least, 1, kMost);
}

void rdzv_backend(Options&, const Typed& typed) {
  DL_CHECK(typed.value == "c10d" || typed.value == "static", kInvalidArgument,
           "{} is `{}`: the nodes always meet through dlrun's own; leave it out", typed.name(),
           typed.value);
}

void rdzv_endpoint(Options& options, const Typed& typed) {
  std::string endpoint(trimmed(typed.value));
  const bool has_port = !endpoint.ends_with(']') && endpoint.find(':') != std::string::npos;
  if (!has_port) endpoint += fmt::format(":{}", kDefaultPort);
  options.meet.rdzv_endpoint = std::move(endpoint);
}

// Read before --join-timeout, which takes precedence.
void rdzv_conf(Options& options, const Typed& typed) {
  std::optional<std::chrono::milliseconds> join, any;
  for (const std::string& pair : split(trimmed(typed.value), ',')) {
    const std::size_t equals = pair.find('=');
    const std::string_view key = trimmed(std::string_view(pair).substr(0, equals));
    const std::string_view value =
        equals == std::string::npos ? "" : trimmed(std::string_view(pair).substr(equals + 1));
    DL_CHECK(!key.empty() && !value.empty(), kInvalidArgument, "{} is `{}`: `{}` is no KEY=VALUE",
             typed.name(), typed.value, pair);
    const std::string name = fmt::format("{}: {}", typed.name(), key);
    if (key == "is_host") {
      options.meet.is_host = truth(typed.name(), key, value);
    } else if (key == "join_timeout") {
      join = seconds(name, value);
    } else if (key == "timeout") {
      any = seconds(name, value);
    } else {
      DL_CHECK(std::find(std::begin(kKeysWithoutEffect), std::end(kKeysWithoutEffect), key) !=
                   std::end(kKeysWithoutEffect),
               kInvalidArgument,
               "{}: dlrun's rendezvous has no `{}`; it has join_timeout, timeout and is_host",
               typed.name(), key);
    }
  }
  if (join || any) options.meet.join_timeout = join ? *join : *any;
}

void master_addr(Options& options, const Typed& typed) {
  // torchrun's help writes an IPv6 address in brackets.
  const bool bracketed = typed.value.starts_with('[') && typed.value.ends_with(']');
  options.meet.master_addr =
      bracketed ? typed.value.substr(1, typed.value.size() - 2) : typed.value;
}

}  // namespace dl::launcher::read
