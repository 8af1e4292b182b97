#include "core/base/env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "core/base/text/number.h"

namespace dl::env {
namespace {

constexpr Row kTable[] = {
#define DL_ENV(enumerator, name, meaning) {Var::enumerator, name, meaning},
#include "core/base/env_list.def"
#undef DL_ENV
};

const char* value_of(Var var) noexcept {
  // A literal, so data() ends with a NUL.
  const char* name = kTable[static_cast<std::size_t>(var)]
                         .name.data();  // NOLINT(bugprone-suspicious-stringview-data-usage)
  return std::getenv(name);
}

}  // namespace

std::span<const Row> table() noexcept {
  return kTable;
}

std::string_view name_of(Var var) noexcept {
  return kTable[static_cast<std::size_t>(var)].name;
}

bool is_set(Var var) noexcept {
  return value_of(var) != nullptr;
}

bool exists(const std::string& name) noexcept {
  return std::getenv(name.c_str()) != nullptr;
}

void set(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

void unset(Var var) {
  ::unsetenv(std::string(name_of(var)).c_str());
}

void set_unless_set(Var var, const std::string& value) {
  ::setenv(std::string(name_of(var)).c_str(), value.c_str(), 0);
}

std::vector<std::string> names_with_prefix(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(prefix) || equals == text.npos || equals + 1 == text.size()) continue;
    names.emplace_back(text.substr(0, equals));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> get(Var var) {
  const char* value = value_of(var);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::int64_t> get_int(Var var) {
  const std::optional<std::string> text = get(var);
  if (!text) return std::nullopt;
  const auto value = read_number<std::int64_t>(*text);
  if (value) return value;
  const std::size_t digits = text->starts_with('-') ? 1 : 0;
  DL_CHECK(text->size() > digits && text->find_first_not_of("0123456789", digits) == text->npos,
           kInvalidArgument, "{}={} is not a whole number", name_of(var), *text);
  using Limits = std::numeric_limits<std::int64_t>;
  throw_error(ErrorKind::kInvalidArgument,
              "{}={} is out of range: wanted a whole number from {} to {}", name_of(var), *text,
              Limits::min(), Limits::max());
}

std::int64_t require_int(Var var) {
  const std::optional<std::int64_t> value = get_int(var);
  DL_CHECK(value.has_value(), kInvalidArgument, "{} is not set; dlrun sets it for every rank",
           name_of(var));
  return *value;
}

bool get_switch(Var var) {
  const std::string value = get(var).value_or("on");
  DL_CHECK(value == "on" || value == "off", kInvalidArgument, "{} is {}, wanted on or off",
           name_of(var), value);
  return value == "on";
}

bool is_pmi_of_srun() {
  const auto rank = get_int(Var::kPmiRank);
  const auto size = get_int(Var::kPmiSize);
  return rank && size && rank == get_int(Var::kSlurmRank) && size == get_int(Var::kSlurmStepTasks);
}

}  // namespace dl::env
