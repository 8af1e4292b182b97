// Plans as text: files, records, and the value of DLRUN_ALGORITHM.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "collectives/algorithms/plan.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"

namespace dl::collectives {
namespace {

constexpr std::string_view kHeader = "dlrun-plan 1";
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::size_t kMostName = 128;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kAny = "*";

// "direct, ring"
template <typename Range>
std::string list(const Range& values) {
  std::string all;
  for (const auto value : values)
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name_of(value));
  return all;
}

template <typename Enum>
std::optional<Enum> find_named(std::string_view name, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::vector<OpKind> ops_with_choice() {
  std::vector<OpKind> ops;
  for (std::size_t i = 0; i < kOpKindCount; ++i) {
    if (algorithms_of(static_cast<OpKind>(i), false).size() > 1)
      ops.push_back(static_cast<OpKind>(i));
  }
  return ops;
}

// Throws kInvalidArgument if the operation has only one algorithm or lacks this one.
Algorithm algorithm_of(OpKind op, bool raw_shares, std::string_view name) {
  const auto all = algorithms_of(op, raw_shares);
  DL_CHECK(all.size() > 1 || raw_shares, kInvalidArgument,
           "{} has only one algorithm; operations with a choice are {}", name_of(op),
           list(ops_with_choice()));
  const auto found = std::ranges::find_if(all, [&](Algorithm a) { return name_of(a) == name; });
  DL_CHECK(found != all.end(), kInvalidArgument, "{}{} has no algorithm '{}'; it has {}",
           name_of(op), raw_shares ? " of raw shares" : "", name, list(all));
  return *found;
}

OpKind op_of(std::string_view name) {
  const auto op = find_named<OpKind>(name, kOpKindCount);
  DL_CHECK(op.has_value(), kInvalidArgument,
           "no operation is called '{}'; operations with a choice are {}", name,
           list(ops_with_choice()));
  return *op;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-+:,").find(c) != std::string_view::npos;
  });
}

// "65536", "64K", "max"
std::uint64_t bytes_of(std::string_view text) {
  if (text == "max") return UINT64_MAX;
  const std::size_t unit =
      text.empty() ? std::string_view::npos : std::string_view("KMG").find(text.back());
  const bool has_unit = unit != std::string_view::npos;
  const auto count = read_number<std::uint64_t>(has_unit ? text.substr(0, text.size() - 1) : text);
  const std::uint64_t scale = has_unit ? std::uint64_t{1024} << (10 * unit) : 1;
  DL_CHECK(count && *count <= UINT64_MAX / scale, kInvalidArgument,
           "'{}' is not a number of bytes; wanted one like 65536, 64K or max", text);
  return *count * scale;
}

int members_of(std::string_view text, std::string_view what) {
  if (text == kAny) return 0;
  const auto count = read_number<int>(text);
  DL_CHECK(count && *count > 0, kInvalidArgument,
           "'{}' is not a number of {}; wanted 1 or more, or *", text, what);
  return *count;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

void read_link(const std::vector<std::string_view>& words, Plan& plan) {
  DL_CHECK(words.size() == 6, kInvalidArgument,
           "a link has a kind and four terms: link loopback a=5e-06 o=2e-06 b=2e-10 g=5e-11");
  const auto kind = find_named<LinkKind>(words[1], kLinkKindCount);
  DL_CHECK(kind.has_value(), kInvalidArgument, "no link is called '{}'; there are {}", words[1],
           list(std::array{LinkKind::kShm, LinkKind::kLoopback, LinkKind::kEthernet}));
  Link link;
  double* const terms[] = {&link.a, &link.o, &link.b, &link.g};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string_view word = words[i + 2];
    const std::string_view name = std::string_view("aobg").substr(i, 1);
    const auto value = word.starts_with(name) && word.substr(1).starts_with('=')
                           ? read_number<double>(word.substr(2))
                           : std::nullopt;
    DL_CHECK(value && std::isfinite(*value) && *value >= 0 && *value <= 1, kInvalidArgument,
             "'{}' is not {}=SECONDS with a number from 0 to 1", word, name);
    *terms[i] = *value;
  }
  plan.links[static_cast<std::size_t>(*kind)] = link;
}

PlanRule read_rule(const std::vector<std::string_view>& words) {
  DL_CHECK(words.size() == 7, kInvalidArgument,
           "a rule has six words: rule OPERATION any|partial|raw NODES RANKS BYTES ALGORITHM");
  PlanRule rule{.op = op_of(words[1])};
  DL_CHECK(words[2] == "any" || words[2] == "partial" || words[2] == "raw", kInvalidArgument,
           "'{}' is not a kind of sum; there are any, partial, raw", words[2]);
  if (words[2] == "partial") rule.sums = SumClass::kPartial;
  if (words[2] == "raw") rule.sums = SumClass::kRaw;
  rule.nodes = members_of(words[3], "nodes");
  rule.ranks = members_of(words[4], "ranks");
  rule.up_to = bytes_of(words[5]);
  rule.algorithm = algorithm_of(rule.op, rule.sums == SumClass::kRaw, words[6]);
  return rule;
}

void read_line(const std::vector<std::string_view>& words, Plan& plan) {
  if (words[0] == "name") {
    DL_CHECK(words.size() == 2 && is_name(words[1]), kInvalidArgument,
             "a name is one word of at most {} letters, digits and ._-+:,", kMostName);
    plan.name = words[1];
  } else if (words[0] == "link") {
    read_link(words, plan);
  } else if (words[0] == "rule") {
    plan.rules.push_back(read_rule(words));
  } else {
    throw_error(ErrorKind::kInvalidArgument,
                "no line of a plan begins with '{}'; use name, link or rule", words[0]);
  }
}

std::string members_text(int count) {
  return count == 0 ? std::string(kAny) : std::to_string(count);
}

}  // namespace

std::string Plan::text() const {
  std::string text = fmt::format("{}\nname {}\n", kHeader, name);
  for (std::size_t i = 0; i < links.size(); ++i) {
    text += fmt::format("link {} a={} o={} b={} g={}\n", name_of(static_cast<LinkKind>(i)),
                        links[i].a, links[i].o, links[i].b, links[i].g);
  }
  for (const PlanRule& rule : rules) {
    const std::string_view sums = !rule.sums                         ? "any"
                                  : *rule.sums == SumClass::kPartial ? "partial"
                                                                     : "raw";
    text += fmt::format("rule {} {} {} {} {} {}\n", name_of(rule.op), sums,
                        members_text(rule.nodes), members_text(rule.ranks),
                        rule.up_to == UINT64_MAX ? "max" : std::to_string(rule.up_to),
                        name_of(rule.algorithm));
  }
  return text;
}

Plan Plan::parse(std::string_view text, std::string_view source) {
  DL_CHECK(text.size() <= kMostBytes, kInvalidArgument, "{} has more than {} bytes", source,
           kMostBytes);
  Plan plan;
  int line_number = 0;
  bool has_header = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++line_number;
    const std::vector<std::string_view> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    if (!has_header) {
      DL_CHECK(words.size() == 2 && fmt::format("{} {}", words[0], words[1]) == kHeader,
               kInvalidArgument, "{}, line {}: a plan begins with '{}'", source, line_number,
               kHeader);
      has_header = true;
      continue;
    }
    try {
      read_line(words, plan);
    } catch (const Error& error) {
      throw_error(ErrorKind::kInvalidArgument, "{}, line {}: {}", source, line_number,
                  error.what());
    }
  }
  DL_CHECK(has_header, kInvalidArgument, "{} is empty; a plan begins with '{}'", source, kHeader);
  return plan;
}

Plan Plan::load(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw_errno(errno, fmt::format("open plan {}", path));
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0) throw_errno(errno, fmt::format("read plan {}", path));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return parse(text, fmt::format("plan '{}'", path));
}

Plan with_algorithms(Plan plan, std::string_view words) {
  std::vector<PlanRule> rules;
  for (std::string_view rest = words; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t colon = word.find(':');
    if (colon != std::string_view::npos) {
      const OpKind op = op_of(word.substr(0, colon));
      rules.push_back({.op = op,
                       .up_to = UINT64_MAX,
                       .algorithm = algorithm_of(op, false, word.substr(colon + 1))});
      continue;
    }
    const std::size_t before = rules.size();
    std::string all;
    for (const OpKind op : ops_with_choice()) {
      for (const Algorithm algorithm : algorithms_of(op, false)) {
        const std::string_view name = name_of(algorithm);
        if (name == word) rules.push_back({.op = op, .up_to = UINT64_MAX, .algorithm = algorithm});
        if (all.find(name) == std::string::npos)
          all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
      }
    }
    DL_CHECK(rules.size() > before, kInvalidArgument, "no algorithm is called '{}'; there are {}",
             word, all);
  }
  if (rules.empty()) return plan;
  plan.rules.insert(plan.rules.begin(), rules.begin(), rules.end());
  plan.name = fmt::format("{}+{}", plan.name, words).substr(0, kMostName);
  return plan;
}

std::string default_plan_path() {
  if (const auto config = env::get(env::Var::kXdgConfigHome)) return *config + "/dlrun/plan";
  const auto home = env::get(env::Var::kHome);
  return home ? *home + "/.config/dlrun/plan" : std::string();
}

Plan find_plan(const std::string& path, const std::string& algorithms) {
  const std::string named = !path.empty() ? path : env::get(env::Var::kPlan).value_or("");
  const std::string usual = default_plan_path();
  Plan plan;
  if (!named.empty()) {
    if (named != plan.name) plan = Plan::load(named);
  } else if (!usual.empty() && ::access(usual.c_str(), F_OK) == 0) {
    plan = Plan::load(usual);
  }
  return with_algorithms(std::move(plan), !algorithms.empty()
                                              ? algorithms
                                              : env::get(env::Var::kAlgorithm).value_or(""));
}

std::string to_line(const Plan& plan) {
  std::string line = plan.text();
  std::ranges::replace(line, '\n', ';');
  return line;
}

Plan plan_of_line(std::string_view line, std::string_view source) {
  std::string text(line);
  std::ranges::replace(text, ';', '\n');
  return Plan::parse(text, source);
}

}  // namespace dl::collectives
