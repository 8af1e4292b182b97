#include "launcher/plan/torch_backend.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "core/base/version.h"
#include "launcher/plan/torch_program.h"
#include "launcher/process/ask/ask.h"

namespace dl::launcher {
namespace {

constexpr std::string_view kOption = "--torch-backend dlrun";
constexpr std::string_view kMark = "\ndlrun-asks|";
// Python starts slowly from the disk of a loaded cluster.
constexpr std::chrono::seconds kPatience{60};
// The first PyTorch in which a backend from outside can take Gloo's name; the entry points of the
// group torch.backends came with 2.5.
constexpr std::pair<int, int> kFirstTorch{2, 14};

// Prints `dlrun-asks|TORCH|DLRUN|True`, with the versions of the two packages.
constexpr const char* kQuestion = R"(
from importlib import metadata
def find(name):
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
torch, dlrun = find("torch"), find("dlrun")
registers = dlrun and any(e.group == "torch.backends" for e in dlrun.entry_points)
print("\ndlrun-asks", torch.version if torch else "", dlrun.version if dlrun else "", bool(registers),
      sep="|")
)";

bool is_older(const std::string& version) {
  std::pair<int, int> number{0, 0};
  std::sscanf(version.c_str(), "%d.%d", &number.first, &number.second);
  return number < kFirstTorch;
}

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1).substr(0, 200));
}

TorchPackages ask_python(const std::vector<std::string>& python, const std::string& path) {
  std::vector<std::string> line = python;
  line.insert(line.end(), {"-c", kQuestion});
  Answer answer;
  try {
    answer = ask(std::move(line), {.path = path, .patience = kPatience});
  } catch (const Error& error) {
    throw_error(ErrorKind::kInvalidArgument, "{}: {}", kOption, error.what());
  }
  const std::size_t at = answer.text.rfind(kMark);
  DL_CHECK(answer.status == 0 && at != std::string::npos, kInvalidArgument,
           "{}: {} does not say which packages it has: it {}{}", kOption, python.front(),
           how_it_ended(answer.status), answer.text.empty() ? "" : ": " + last_line(answer.text));
  std::istringstream facts(answer.text.substr(at + kMark.size()));
  TorchPackages packages;
  std::string registers;
  std::getline(facts, packages.torch, '|');
  std::getline(facts, packages.dlrun, '|');
  std::getline(facts, registers);
  packages.registers = registers == "True";
  return packages;
}

}  // namespace

std::vector<std::string> python_of(const std::vector<std::string>& words, const Program& program) {
  if (names_python(words.front())) return {words.front()};
  if (!program.can_be_read) return {};
  std::string line;
  std::ifstream file(program.path, std::ios::binary);
  std::array<char, 2> begin{};
  if (!file.read(begin.data(), begin.size()) || begin[0] != '#' || begin[1] != '!') return {};
  std::getline(file, line);
  std::istringstream parts(line);
  for (std::string word; parts >> word;) {
    if (names_python(word)) return {word};
    const bool is_env = word == "env" || word.ends_with("/env");
    if (!is_env && word != "-S") return {};
  }
  return {};
}

std::string why_no_torch_backend(const TorchPackages& packages, std::string_view python) {
  if (packages.torch.empty()) return fmt::format("{} has no PyTorch", python);
  if (is_older(packages.torch)) {
    return fmt::format(
        "PyTorch {} of {} cannot take a backend in Gloo's place, wanted {}.{} or newer; with this "
        "one say init_process_group(\"dlrun\") after `import dlrun.torch`",
        packages.torch, python, kFirstTorch.first, kFirstTorch.second);
  }
  if (packages.dlrun.empty()) {
    return fmt::format("the package dlrun is not installed for {}; install its wheel there",
                       python);
  }
  if (!packages.registers) {
    return fmt::format(
        "the package dlrun {} of {} cannot take Gloo's place; install the wheel of dlrun {} there",
        packages.dlrun, python, kVersion);
  }
  return "";
}

void check_torch_backend(const JobOptions& job, const App& app, const Program& program) {
  if (job.torch_backend != TorchBackend::kDlrun || program.exit_code != 0 || !app.is_here) return;
  const std::vector<std::string> python = python_of(app.program, program);
  DL_CHECK(!python.empty(), kInvalidArgument,
           "{} needs a program of Python, and `{}` is none: write Python's own line, or give what "
           "it starts the variable unchecked, by -x {}=dlrun",
           kOption, app.program.front(), env::name_of(env::Var::kTorchBackend));
  const std::string autoload = env::get(env::Var::kTorchAutoload).value_or("");
  DL_CHECK(!env::is_set(env::Var::kTorchAutoload) || autoload == "1", kInvalidArgument,
           "{}: {} is `{}`, so that PyTorch does not look for it; unset that", kOption,
           env::name_of(env::Var::kTorchAutoload), autoload);
  const bool is_first_word = python.front() == app.program.front();
  const TorchPackages packages = ask_python(python, is_first_word ? program.path : "");
  const std::string why =
      why_no_torch_backend(packages, is_first_word ? program.path : python.front());
  DL_CHECK(why.empty(), kInvalidArgument, "{}: {}", kOption, why);
}

}  // namespace dl::launcher
