#include "launcher/plan/torch_program.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/base/env.h"

namespace dl::launcher {
namespace {

bool names_script(std::string_view word) {
  return names_python(word) || word.ends_with(".py") || word.ends_with(".sh");
}

// Programs that run another program, and programs that show which one they would find.
bool is_shell(std::string_view word) {
  constexpr std::array<std::string_view, 7> kNames = {"sh",  "bash", "dash",    "zsh",
                                                      "ksh", "env",  "printenv"};
  return std::ranges::find(kNames, word.substr(word.rfind('/') + 1)) != kNames.end();
}

bool is_script(const Program& program) {
  if (!program.can_be_read) return false;
  std::array<char, 4> begin{};
  std::ifstream file(program.path, std::ios::binary);
  return file.read(begin.data(), begin.size()) && std::string_view(begin.data(), begin.size()) !=
                                                      "\x7f"
                                                      "ELF";
}

}  // namespace

bool names_python(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("pypy");
}

bool may_be_torch(const std::vector<std::string>& words, const Program& program) {
  if (words.empty()) return false;
  return is_shell(words.front()) || std::ranges::any_of(words, names_script) || is_script(program);
}

bool wants_torch_store(const std::vector<std::string>& words, const Program& program) {
  const std::optional<std::string> disabled = env::get(env::Var::kTorchNoAgentStore);
  return disabled ? *disabled != "1" : may_be_torch(words, program);
}

}  // namespace dl::launcher
