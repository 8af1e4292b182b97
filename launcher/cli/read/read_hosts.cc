// --hosts and --hostfile, in Open MPI's and in MPICH's form.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

// A host that is named twice has the slots of both, as with mpirun. Without a number it counts one.
void add_host(std::vector<HostSlots>& hosts, HostSlots found) {
  for (HostSlots& known : hosts) {
    if (known.host != found.host) continue;
    known.slots = known.slots.value_or(1) + found.slots.value_or(1);
    return;
  }
  hosts.push_back(std::move(found));
}

// Parses "node1", "node1:4", "[fe80::1]:4", "fe80::1". `where` is the option or file, for texts.
HostSlots host_of(std::string_view where, std::string_view text) {
  HostSlots found;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    DL_CHECK(end != std::string_view::npos, kInvalidArgument, "{}: `{}` has no closing bracket",
             where, text);
    found.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    DL_CHECK(rest.empty() || rest.starts_with(':'), kInvalidArgument,
             "{} has `{}`, wanted [ADDRESS]:SLOTS", where, text);
  } else if (const std::size_t colon = text.find(':'); colon == text.rfind(':')) {
    found.host = text.substr(0, colon);
    if (colon != std::string_view::npos) rest = text.substr(colon);
  } else {
    found.host = text;  // an IPv6 address without a number
  }
  DL_CHECK(!found.host.empty() && found.host.find_first_of(" \t") == std::string::npos,
           kInvalidArgument, "{} has `{}`, wanted HOST or HOST:SLOTS", where, text);
  if (!rest.empty()) {
    found.slots =
        whole_number(fmt::format("{}: slots of {}", where, found.host), rest.substr(1), 1, kMost);
  }
  return found;
}

// `node1 slots=4 max-slots=8` (Open MPI), `node1:4 binding=...` (MPICH); `#` begins a remark.
void add_line(std::vector<HostSlots>& hosts, const std::string& where, std::string_view line) {
  line = trimmed(line.substr(0, line.find('#')));
  if (line.empty()) return;
  std::size_t end = line.find_first_of(" \t");
  HostSlots found = host_of(where, line.substr(0, end));
  std::optional<int> most;
  while (end != std::string_view::npos) {
    line = trimmed(line.substr(end));
    end = line.find_first_of(" \t");
    const std::string_view word = line.substr(0, end);
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    DL_CHECK(equals != std::string_view::npos, kInvalidArgument,
             "{}: `{}` is no KEY=VALUE, as in `node1 slots=4`", where, word);
    const bool is_most = key == "max-slots" || key == "max_slots";
    DL_CHECK(key == "slots" || key == "count" || is_most, kInvalidArgument,
             "{}: `{}` is not supported; wanted slots=N", where, word);
    const int number =
        whole_number(fmt::format("{}: {}", where, key), word.substr(equals + 1), 1, kMost);
    std::optional<int>& told = is_most ? most : found.slots;
    DL_CHECK(!told, kInvalidArgument,
             "{}: `{}` gives {} another number of slots, beside {} (a port of ssh belongs into "
             "~/.ssh/config); leave one of them out",
             where, word, found.host, *told);
    told = number;
  }
  DL_CHECK(!most || found.slots.value_or(1) <= *most, kInvalidArgument,
           "{}: {} has {} slots, and max-slots={}", where, found.host, found.slots.value_or(1),
           *most);
  add_host(hosts, std::move(found));
}

}  // namespace

void hosts(Options& options, const Typed& typed) {
  for (const std::string& word : split(typed.value, ',')) {
    add_host(options.where.hosts, host_of(typed.name(), trimmed(word)));
  }
}

void hostfile(Options& options, const Typed& typed) {
  std::ifstream file(typed.value);
  DL_CHECK(file.is_open(), kInvalidArgument, "{} {}: {}", typed.name(), typed.value,
           std::strerror(errno));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    add_line(options.where.hosts, fmt::format("{}:{}", typed.value, ++number), line);
  }
  DL_CHECK(file.eof() && !options.where.hosts.empty(), kInvalidArgument, "{} {} {}", typed.name(),
           typed.value, file.eof() ? "names no host" : "cannot be read");
}

}  // namespace dl::launcher::read
