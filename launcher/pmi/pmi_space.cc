#include "launcher/pmi/pmi_space.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <utility>

namespace dl::launcher {
namespace {

constexpr std::string_view kSpaceName = "kvs";

// The value of `name` in "a=1 name=value b=2"; a value ends at a blank.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') {
      return word.substr(name.size() + 1);
    }
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return std::nullopt;
}

// A line without a number counts as 1.
PmiSpace::Answer abort(std::string_view line) {
  const std::string_view text = value_of(line, "exitcode").value_or("");
  int code = 1;
  std::from_chars(text.data(), text.data() + text.size(), code);
  return {{}, "", code};
}

// The text whose bytes are these pairs of hexadecimal digits; empty: it is none.
std::string text_of_hex(std::string_view hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    int byte = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    if (error != std::errc() || end != hex.data() + i + 2) return {};
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

PmiSpace::Answer fault(std::string text) {
  return {{}, std::move(text)};
}

}  // namespace

PmiSpace::PmiSpace(int size, const std::vector<int>& apps)
    : ranks_(static_cast<std::size_t>(size)) {
  std::size_t rank = 0;
  for (std::size_t app = 0; app < apps.size(); ++app) {
    for (int i = 0; i < apps[app]; ++i) ranks_.at(rank++).app = static_cast<int>(app);
  }
  // The node of each rank, in blocks: (first node, nodes, ranks a node).
  values_["PMI_process_mapping"] = fmt::format("(vector,(0,1,{}))", size);
}

PmiSpace::Answer PmiSpace::answer(int rank, std::string_view line) {
  State& state = ranks_.at(static_cast<std::size_t>(rank));
  const auto reply = [rank](std::string text) {
    return Answer{{{rank, std::move(text) + "\n"}}, ""};
  };
  if (state.in_spawn) {
    if (line != "endcmd") return {};
    state.in_spawn = false;
    return reply("cmd=spawn_result rc=-1 status=dlrun_starts_no_further_processes");
  }
  if (line == "mcmd=spawn") {
    state.in_spawn = true;
    return {};
  }
  const std::string_view command = value_of(line, "cmd").value_or("");
  if (command == "init") {
    if (value_of(line, "pmi_version") != "1") {
      return fault("it speaks another version of PMI than 1");
    }
    state.greeted = true;
    state.in_mpi = true;
    return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  }
  if (!state.greeted) return fault("its first line is no `cmd=init`");
  if (state.in_barrier) return fault("it goes on before the barrier is over");
  if (command == "get_maxes") {
    return reply(fmt::format("cmd=maxes kvsname_max={} keylen_max={} vallen_max={}", kMostName,
                             kMostKey, kMostValue));
  }
  if (command == "get_appnum") {
    return reply(fmt::format("cmd=appnum appnum={}", state.app));
  }
  if (command == "get_universe_size") {
    return reply(fmt::format("cmd=universe_size size={}", ranks_.size()));
  }
  if (command == "get_my_kvsname") {
    return reply(fmt::format("cmd=my_kvsname kvsname={}", kSpaceName));
  }
  if (command == "put") return put(rank, line);
  if (command == "get") return reply(get(line));
  if (command == "barrier_in") return enter_barrier(rank);
  if (command == "finalize") {
    state.in_mpi = false;
    return reply("cmd=finalize_ack");
  }
  if (command == "abort") return abort(line);
  // dlrun has no name service between jobs.
  if (command == "publish_name") return reply("cmd=publish_result rc=-1 info=no_name_service");
  if (command == "unpublish_name") return reply("cmd=unpublish_result rc=-1 info=no_name_service");
  if (command == "lookup_name") {
    return reply("cmd=lookup_result rc=-1 info=no_name_service port=");
  }
  return fault(fmt::format("it asks for `{}`, which PMI 1 does not have", command));
}

PmiSpace::Answer PmiSpace::put(int rank, std::string_view line) {
  const auto key = value_of(line, "key");
  const auto value = value_of(line, "value");
  if (value_of(line, "kvsname") != kSpaceName || !key || key->empty() || !value) {
    return fault("its `cmd=put` is malformed");
  }
  std::string why;
  if (key->size() > kMostKey || value->size() > kMostValue) why = "too_long";
  if (++ranks_[static_cast<std::size_t>(rank)].puts > kMostPuts) why = "too_many";
  if (why.empty() && !values_.emplace(*key, *value).second) why = "duplicate_key";
  return {{{rank, fmt::format("cmd=put_result rc={} msg={}\n", why.empty() ? 0 : -1,
                              why.empty() ? "success" : why)}},
          ""};
}

std::string PmiSpace::get(std::string_view line) const {
  const auto found = values_.find(std::string(value_of(line, "key").value_or("")));
  if (value_of(line, "kvsname") != kSpaceName || found == values_.end()) {
    return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
  }
  return "cmd=get_result rc=0 msg=success value=" + found->second;
}

std::vector<std::string> PmiSpace::shared_files() const {
  // The name that MPICH's mkstemp() makes.
  constexpr std::string_view kBegin = "/dev/shm/mpich_shar_tmp";
  constexpr std::size_t kRandom = 6;
  std::vector<std::string> files;
  for (const auto& [key, value] : values_) {
    if (!key.starts_with("-bcast-") || value.size() != 2 * (kBegin.size() + kRandom)) continue;
    std::string file = text_of_hex(value);
    if (!file.starts_with(kBegin) || file.rfind('/') >= kBegin.size()) continue;
    if (file.find('\0') == std::string::npos) files.push_back(std::move(file));
  }
  return files;
}

PmiSpace::Answer PmiSpace::enter_barrier(int rank) {
  State& state = ranks_[static_cast<std::size_t>(rank)];
  // A process that the rank has left behind speaks for it.
  if (std::exchange(state.has_left, false)) --left_;
  state.in_barrier = true;
  ++in_barrier_;
  return end_barrier_if_all_are_in();
}

PmiSpace::Answer PmiSpace::leave(int rank) {
  State& state = ranks_.at(static_cast<std::size_t>(rank));
  if (!std::exchange(state.has_left, true)) ++left_;
  if (state.in_barrier) --in_barrier_;
  state.in_barrier = false;
  return end_barrier_if_all_are_in();
}

PmiSpace::Answer PmiSpace::end_barrier_if_all_are_in() {
  if (in_barrier_ == 0 || in_barrier_ + left_ < static_cast<int>(ranks_.size())) return {};
  in_barrier_ = 0;
  Answer all;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].in_barrier) continue;
    ranks_[i].in_barrier = false;
    all.lines.push_back({static_cast<int>(i), "cmd=barrier_out rc=0\n"});
  }
  return all;
}

std::vector<int> PmiSpace::waiting() const {
  std::vector<int> result;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].in_barrier) result.push_back(static_cast<int>(i));
  }
  return result;
}

std::vector<int> PmiSpace::awaited() const {
  std::vector<int> result;
  for (std::size_t i = 0; in_barrier_ > 0 && i < ranks_.size(); ++i) {
    if (!ranks_[i].in_barrier && !ranks_[i].has_left) result.push_back(static_cast<int>(i));
  }
  return result;
}

}  // namespace dl::launcher
