// What is said of a program that cannot be found or executed.
#include "launcher/process/start/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

namespace fs = std::filesystem;

// A working directory of its own.
class ProgramText : public testing::Test {
 protected:
  ProgramText() { fs::current_path(folder_.path()); }
  ~ProgramText() override { fs::current_path(before_); }

  static void make(const std::string& name, const std::string& text, bool can_be_executed = true) {
    std::ofstream(name, std::ios::binary) << text;
    if (can_be_executed) fs::permissions(name, fs::perms::owner_all);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  fs::path before_ = fs::current_path();
  tests::TempDir folder_;
};

TEST_F(ProgramText, AdviceToWriteAPathIsGivenIfThePathRuns) {
  make("train", "#!/bin/sh\n");
  make("notes", "text", /*can_be_executed=*/false);
  fs::create_directory("pkg");
  EXPECT_EQ(find_program("train").error,
            "train is not on PATH; for the file in this folder write `./train`");
  EXPECT_EQ(find_program("pkg").error,
            "pkg is not on PATH, and ./pkg is a folder; for a Python package write `-m pkg`");
  EXPECT_EQ(find_program("notes").error,
            "notes is not on PATH, and ./notes cannot be executed: Permission denied");
  EXPECT_EQ(find_program("no-such-program").error,
            "there is no program no-such-program on PATH (No such file or directory)");
  for (const char* name : {"train", "pkg", "notes", "no-such-program"}) {
    EXPECT_EQ(find_program(name).exit_code, kExitNotFound) << name;
  }
}

TEST_F(ProgramText, AMissingFileIsNotCalledAMissingInterpreter) {
  make("train", "#!/bin/sh\n");
  fs::remove("train");
  EXPECT_EQ(why_no_interpreter(path("train")), "it was there at the start, and is not there now");
}

TEST_F(ProgramText, OfAChainOfInterpretersTheMissingOneIsNamed) {
  make("outer", "#!" + path("inner") + "\n");
  make("inner", "#! /no/such/python -u\n");
  EXPECT_EQ(why_no_interpreter("outer"), "its interpreter " + path("inner") +
                                             " cannot be executed: its interpreter "
                                             "/no/such/python is not there");
  EXPECT_EQ(why_no_interpreter("inner"), "its interpreter /no/such/python is not there");
  // Files that change meanwhile may form a ring.
  make("inner", "#!" + path("outer") + "\n");
  EXPECT_THAT(why_no_interpreter("outer"), testing::EndsWith(" is not there"));
  make("binary", std::string("\x7f") + "ELF");
  make("outer", "#!" + path("binary") + "\n");
  EXPECT_EQ(why_no_interpreter("outer"),
            "its interpreter " + path("binary") +
                " cannot be executed: the dynamic linker that it names is not there (another "
                "libc?)");
}

}  // namespace
}  // namespace dl::launcher
