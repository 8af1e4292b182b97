// Environment variables: the only code that reads them. env_list.def lists names and meanings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::env {

enum class Var : std::uint8_t {
#define DL_ENV(enumerator, name, meaning) enumerator,
#include "core/base/env_list.def"
#undef DL_ENV
};

struct Row {
  Var var;
  std::string_view name;
  std::string_view meaning;
};

// All variables, in the order of env_list.def.
std::span<const Row> table() noexcept;
std::string_view name_of(Var var) noexcept;

// True also for an empty variable, for which get() returns nullopt as for one that is not set.
bool is_set(Var var) noexcept;
std::optional<std::string> get(Var var);
// For a variable that the user named (dlrun -x).
bool exists(const std::string& name) noexcept;
void set(const std::string& name, const std::string& value);
void unset(Var var);
// The names of all variables that begin with `prefix` and have a value, in alphabetical order.
std::vector<std::string> names_with_prefix(std::string_view prefix);
// For libraries that read the environment themselves. Not thread-safe: no other thread may read the
// environment meanwhile.
void set_unless_set(Var var, const std::string& value);
// Throws kInvalidArgument: "RANK=abc is not a whole number".
std::optional<std::int64_t> get_int(Var var);
// Throws kInvalidArgument if the variable is unset: "RANK is not set; dlrun sets it for every
// rank".
std::int64_t require_int(Var var);

// True if the variable is "on" or not set, false if it is "off". Throws kInvalidArgument for
// another value.
bool get_switch(Var var);

// True if srun has set PMI_RANK and PMI_SIZE (--mpi=pmi2): they then equal SLURM_PROCID and
// SLURM_STEP_NUM_TASKS. An mpirun inside a step of srun sets other values.
bool is_pmi_of_srun();

}  // namespace dl::env
