// The manual, the reference and the completion scripts say what the table of options says.
#include "launcher/cli/table/option_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/cli/table/option_table.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::read_file;

std::string path_of(const std::string& file) {
  const char* const root = std::getenv("DLRUN_TEST_SOURCE");
  return std::string(root == nullptr ? "." : root) + "/" + file;
}

// The part of a file between two lines is `text`; DLRUN_TEST_REWRITE=1 makes it so.
void expect_part(const std::string& file, const std::string& begin, const std::string& end,
                 const std::string& text) {
  const std::string whole = read_file(path_of(file));
  const std::size_t from = whole.find(begin) + begin.size();
  const std::size_t to = whole.find(end, from);
  ASSERT_NE(whole.find(begin), std::string::npos) << file << " has no line " << begin;
  ASSERT_NE(to, std::string::npos) << file << " has no line " << end;
  if (const char* rewrite = std::getenv("DLRUN_TEST_REWRITE"); rewrite != nullptr) {
    std::ofstream(path_of(file), std::ios::binary)
        << whole.substr(0, from) << text << whole.substr(to);
    return;
  }
  EXPECT_EQ(whole.substr(from, to - from), text)
      << file << " is not what option_table.cc says; launcher_test with DLRUN_TEST_REWRITE=1 "
      << "writes it";
}

TEST(OptionText, TheManualAndTheReferenceAreThoseOfTheTable) {
  expect_part("launcher/dlrun.1", ".SH OPTIONS\n", ".SH SIGNALS\n",
              "An option may be written with dashes or underscores, and shorter if it is clear "
              "which one is meant.\n" +
                  options_as_roff());
  expect_part("launcher/dlrun.1", ".SH SUBCOMMANDS\n", ".SH EXIT STATUS\n", subcommands_as_roff());
  expect_part("docs/reference/dlrun.md", "# dlrun\n\n```\n", "```\n", options_as_help());
  expect_part("docs/reference/dlrun.md", "<!-- begin of the list of options -->\n",
              "<!-- end of the list of options -->\n", options_as_markdown());
  for (const Subcommand& subcommand : subcommand_table()) {
    expect_part("docs/reference/dlrun.md", "## dlrun " + std::string(subcommand.name) + "\n\n```\n",
                "```\n", help_of(subcommand));
  }
}

TEST(OptionText, EverySubcommandSaysWhatItIsAndHasJson) {
  for (const Subcommand& subcommand : subcommand_table()) {
    EXPECT_LE(subcommand.help.size(), 68U) << subcommand.name;
    EXPECT_NE(subcommand.run, nullptr);
    EXPECT_THAT(options_as_help(), HasSubstr("\n  " + std::string(subcommand.name) + " "));
    EXPECT_TRUE(std::ranges::count(subcommand.options, "--json", &SubcommandOption::name) == 1)
        << subcommand.name;
  }
}

TEST(OptionText, EveryRowSaysWhatItIs) {
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(row.group == Group::kRefused ? !row.about.empty() : !row.help.empty()) << row.name;
    EXPECT_EQ(row.group == Group::kRefused, row.read == nullptr) << row.name;
    const std::size_t of_default = row.fallback.empty() ? 0 : row.fallback.size() + 3;
    EXPECT_LE(row.help.size() + of_default, 72U) << row.name;
    if (row.group == Group::kRefused) continue;
    EXPECT_THAT(options_as_help(), HasSubstr(std::string(row.name)));
  }
}

TEST(OptionText, DefaultsAreInTheHelpTheManualAndTheReference) {
  const auto line_of = [](const std::string& text, const std::string& begin) {
    const std::size_t at = text.find(begin);
    return at == std::string::npos ? "" : text.substr(at, text.find("\n", at + 40) - at);
  };
  const std::string wait = "\\fB\\-\\-preempt\\-wait\\fR \\fISECONDS\\fR (default: \\fB25\\fR)\n";
  EXPECT_THAT(options_as_roff(), HasSubstr(wait));
  EXPECT_THAT(options_as_markdown(), HasSubstr("- `--preempt-wait SECONDS` (default: `25`): "));
  EXPECT_THAT(line_of(options_as_help(), "  --preempt-wait "), testing::EndsWith(" (25)"));
  EXPECT_THAT(line_of(options_as_help(), "  --log-line-prefix-template "),
              testing::EndsWith(" ('[rank ${rank}] ')"));
  for (const OptionRow& row : option_table()) {
    // The table has each default once: no text repeats it.
    if (row.fallback.empty()) continue;
    const std::string repeated = "(" + std::string(row.fallback) + ")";
    for (const std::string_view text : {row.help, row.about}) {
      EXPECT_THAT(std::string(text), Not(HasSubstr(repeated))) << row.name;
      EXPECT_THAT(std::string(text), Not(HasSubstr("(the default)"))) << row.name;
    }
  }
}

// The manual is read without the documentation's pages beside it.
TEST(OptionText, TheManualPointsToWhatThereIs) {
  const std::string manual = read_file(path_of("launcher/dlrun.1"));
  EXPECT_THAT(manual, Not(testing::ContainsRegex("[( ]below[).]")));
  int places = 0;
  for (std::size_t at = 0; (at = manual.find("(see ", at)) != std::string::npos;) {
    at += 5;
    const std::string place = manual.substr(at, manual.find(')', at) - at);
    ++places;
    if (place.ends_with(".md")) {
      EXPECT_TRUE(std::filesystem::exists(path_of("docs/" + place))) << place;
    } else {
      EXPECT_THAT(manual, HasSubstr("\n.SH " + place + "\n"));
    }
  }
  std::size_t notes = 0;  // a link that is all of a parenthesis says nothing without its target
  for (const OptionRow& row : option_table()) {
    for (std::size_t at = 0; (at = row.about.find("([", at)) != std::string_view::npos; ++at) {
      const std::size_t end = row.about.find(')', row.about.find("](", at));
      notes += row.about.substr(end + 1).starts_with(')') ? 1 : 0;
    }
  }
  EXPECT_GE(static_cast<std::size_t>(places), notes);
  EXPECT_GT(notes, 5U);
}

TEST(OptionText, TheManualAndTheHelpHaveEveryExitCode) {
  const std::string reference = read_file(path_of("docs/reference/dlrun.md"));
  const std::size_t begin = reference.find("\n## Exit codes\n");
  const std::string list = reference.substr(begin, reference.find("\n## ", begin + 1) - begin);
  const std::string manual = read_file(path_of("launcher/dlrun.1"));
  const std::size_t status = manual.find(".SH EXIT STATUS\n");
  const std::string of_manual = manual.substr(status, manual.find(".SH FILES", status) - status);
  int codes = 0;
  for (std::size_t at = 0; (at = list.find("\n- **", at)) != std::string::npos;) {
    at += 5;
    const std::string code = list.substr(at, list.find("**", at) - at);
    if (!std::ranges::all_of(code, [](char c) { return c >= '0' && c <= '9'; })) continue;
    ++codes;
    EXPECT_THAT(of_manual, testing::ContainsRegex("[ \n]" + code + "[ \n]")) << code;
  }
  EXPECT_GE(codes, 8);
  EXPECT_THAT(of_manual, HasSubstr("stopped or hung for 10 minutes"));
}

TEST(OptionText, NoTwoRowsShareASpelling) {
  std::vector<std::string> spellings;
  for (const OptionRow& row : option_table()) {
    spellings.emplace_back(row.name);
    if (row.letter != 0) spellings.push_back(std::string("-") + row.letter);
  }
  std::sort(spellings.begin(), spellings.end());
  EXPECT_EQ(std::adjacent_find(spellings.begin(), spellings.end()), spellings.end());
}

// What bash offers for a line.
std::string offered_by_bash(const std::string& line) {
  const tests::TempDir folder;
  std::ofstream(folder.path() + "/complete") << completion_for("bash");
  tests::Process bash({"bash", "--norc", "-c",
                       "cd " + folder.path() + "; . ./complete; touch train.py; COMP_WORDS=(" +
                           line +
                           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _dlrun; "
                           "echo \"${COMPREPLY[@]}\""});
  EXPECT_EQ(bash.wait(), 0) << bash.err();
  EXPECT_EQ(bash.err(), "");
  return bash.out();
}

TEST(Completion, BashCompletesOptionsTheirWordsAndThenTheProgram) {
  EXPECT_EQ(offered_by_bash("dlrun --nproc"), "--nproc-per-node\n");
  EXPECT_EQ(offered_by_bash("dlrun --bind ''"), "none core even numa socket\n");
  EXPECT_EQ(offered_by_bash("dlrun --bind = e"), "even\n");
  EXPECT_EQ(offered_by_bash("dlrun --bind = none --gpu-policy s"), "scope\n");
  EXPECT_EQ(offered_by_bash("dlrun --rdzv-id ''"), "\n");
  EXPECT_THAT(offered_by_bash("dlrun -n 2 trai"), HasSubstr("train.py"));
  EXPECT_EQ(offered_by_bash("dlrun -n 2 ls --tee"), "\n");
  EXPECT_THAT(offered_by_bash("dlrun --"), Not(HasSubstr("--logs-specs")));
}

TEST(Completion, BashKnowsSubcommandsAsTheFirstWordOnly) {
  EXPECT_THAT(offered_by_bash("dlrun top"), HasSubstr("topo"));
  EXPECT_EQ(offered_by_bash("dlrun topo --"),
            "--matrix --json --svg --hosts --hostfile --ssh --this-host --help\n");
  EXPECT_EQ(offered_by_bash("dlrun topo trai"), "\n");
  EXPECT_EQ(offered_by_bash("dlrun -n 2 topo --"), "\n");
}

// What fish offers for a line, if it is installed.
std::string offered_by_fish(const std::string& line) {
  const tests::TempDir folder;
  std::ofstream(folder.path() + "/complete.fish") << completion_for("fish");
  tests::Process fish({"fish", "--no-config", "-c",
                       "cd " + folder.path() +
                           "; touch train.py; source complete.fish; "
                           "complete -C '" +
                           line + "' | string split -f1 \\t"});
  EXPECT_EQ(fish.wait(), 0) << fish.err();
  EXPECT_EQ(fish.err(), "");
  return fish.out();
}

TEST(Completion, FishCompletesOptionsTheirWordsAndThenTheProgram) {
  if (std::system("command -v fish > /dev/null") != 0) GTEST_SKIP() << "no fish";
  EXPECT_THAT(offered_by_fish("dlrun --nproc"), HasSubstr("--nproc-per-node\n"));
  EXPECT_EQ(offered_by_fish("dlrun --bind e"), "even\n");
  EXPECT_EQ(offered_by_fish("dlrun --bind none --gpu-policy s"), "scope\n");
  EXPECT_EQ(offered_by_fish("dlrun --rdzv-id "), "");
  EXPECT_THAT(offered_by_fish("dlrun -n 2 trai"), HasSubstr("train.py"));
  EXPECT_THAT(offered_by_fish("dlrun -n 2 -- ls --te"), Not(HasSubstr("--tee")));
}

TEST(Completion, TcshReadsItsScript) {
  if (std::system("command -v tcsh > /dev/null") != 0) GTEST_SKIP() << "no tcsh";
  const tests::TempDir folder;
  std::ofstream(folder.path() + "/complete") << completion_for("tcsh");
  tests::Process tcsh(
      {"tcsh", "-f", "-c", "source " + folder.path() + "/complete; complete dlrun"});
  EXPECT_EQ(tcsh.wait(), 0) << tcsh.err();
  EXPECT_THAT(tcsh.out(), HasSubstr("n/--bind/(none core even numa socket)/"));
}

TEST(Completion, ScriptsAreForFourShells) {
  EXPECT_THAT(completion_for("zsh"), testing::StartsWith("#compdef dlrun\n"));
  EXPECT_THAT(completion_for("zsh"), HasSubstr("'--bind=["));
  EXPECT_THAT(completion_for("zsh"), HasSubstr("    topo) shift words; "));
  EXPECT_THAT(completion_for("fish"),
              HasSubstr("complete -c dlrun -n '__dlrun_in_subcommand topo' -l matrix -s m -d"));
  EXPECT_THAT(
      completion_for("tcsh"),
      HasSubstr(" 'n/topo/(--matrix --json --svg --hosts --hostfile --ssh --this-host --help)/'"));
  EXPECT_THAT(completion_for("tcsh"), testing::StartsWith("complete dlrun 'n/"));
  EXPECT_THAT(completion_for("tcsh"), HasSubstr(" 'n/--key-file/f/' "));
  EXPECT_THAT(completion_for("tcsh"), HasSubstr(" 'c/--bind=/(none core even numa socket)/' "));
  EXPECT_THAT(completion_for("tcsh"), HasSubstr(" 'c/--/(help version print-completion "));
  EXPECT_EQ(std::ranges::count(completion_for("tcsh"), '\n'), 1);
  EXPECT_THAT(completion_for("fish"), HasSubstr(" -l bind -x -a 'none core even numa socket' -d"));
  EXPECT_THAT(completion_for("fish"), HasSubstr(" -l np -s n -o np -l n -x -d"));
  EXPECT_THAT(completion_for("fish"), HasSubstr("rank\\'s"));
  for (const char* shell : {"tcsh", "fish"}) {
    EXPECT_THAT(completion_for(shell), Not(HasSubstr("logs-specs"))) << shell;
  }
  try {
    completion_for("csh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--print-completion is `csh`, wanted bash, zsh, tcsh or fish");
  }
}

}  // namespace
}  // namespace dl::launcher
