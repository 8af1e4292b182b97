// Which libpmix a program's MPI would load, and how new it is.
#include "launcher/pmi/pmix/libpmix_of_mpi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace dl::pmix {
namespace {

using launcher::LoadedLibrary;
using Libraries = std::vector<LoadedLibrary>;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// An interpreter, its prefix with an MPI, and what the dynamic linker would say of each.
class LibpmixOf : public testing::Test {
 protected:
  static Libraries list(const std::string& file) {
    if (file.ends_with("/linked")) return {{"libpmix.so.2", "/its/libpmix.so.2"}};
    if (file.ends_with("/libmpi.so.40")) {
      return {{"libopen-pal.so.80", file + ".pal"}, {"libpmix.so.2", file + ".pmix"}};
    }
    if (file.ends_with("/of_debian")) return {{"libmpi.so.40", "/usr/lib/libmpi.so.40"}};
    if (file.ends_with("/lost")) return {{"libpmix.so.2", ""}};
    return {};
  }
  std::string of(const std::filesystem::path& program, const std::string& library_path = "") const {
    return libpmix_of(program, library_path, &list);
  }
  std::filesystem::path path(const std::string& name) const { return home_.path() + "/" + name; }

  tests::TempDir home_;
};

TEST_F(LibpmixOf, AProgramIsTheOneThatItLoads) {
  EXPECT_EQ(of("/nowhere/linked"), "/its/libpmix.so.2");
  EXPECT_EQ(of("/nowhere/lost"), "");
  EXPECT_EQ(of("/nowhere/plain"), "");
}

TEST_F(LibpmixOf, AnInterpreterIsThatOfTheMpiThatItWouldLoad) {
  write(path("v/bin/python"),
        "\x7f"
        "ELF");
  EXPECT_EQ(of(path("v/bin/python")), "") << "no MPI there";
  write(path("v/lib/libmpi.so.40"), "");
  EXPECT_EQ(of(path("v/bin/python")), path("v/lib/libmpi.so.40.pmix"));
  write(path("w/libmpi.so.40"), "");
  EXPECT_EQ(of(path("v/bin/python"), path("none").string() + "::" + path("w").string()),
            path("w/libmpi.so.40.pmix"));
  // A program that is linked to an MPI loads no other one.
  write(path("v/bin/of_debian"),
        "\x7f"
        "ELF");
  EXPECT_EQ(of(path("v/bin/of_debian")), "");
}

TEST_F(LibpmixOf, AScriptIsThatOfItsInterpreter) {
  write(path("v/lib/libmpi.so.40"), "");
  write(path("v/bin/python"),
        "\x7f"
        "ELF");
  const std::string theirs = path("v/lib/libmpi.so.40.pmix");
  write(path("own"), "#!" + path("v/bin/python").string() + "\nprint()\n");
  EXPECT_EQ(of(path("own")), theirs);
  write(path("with_space"), "#! " + path("v/bin/python").string() + " -u\n");
  EXPECT_EQ(of(path("with_space")), theirs);
  const char* const had = std::getenv("PATH");
  const std::string before = had == nullptr ? "" : had;
  ::setenv("PATH", ("/nowhere:" + path("v/bin").string()).c_str(), 1);
  write(path("by_env"), "#!/usr/bin/env python\n");
  EXPECT_EQ(of(path("by_env")), theirs);
  write(path("of_none"), "#!/usr/bin/env no-such-program\n");
  EXPECT_EQ(of(path("of_none")), "");
  ::setenv("PATH", before.c_str(), 1);
  for (const char* text : {"#!", "#!\n", "#!   \n", "#", ""}) {
    write(path("odd"), text);
    EXPECT_EQ(of(path("odd")), "") << text;
  }
}

TEST(ListLibraries, IsWhatTheDynamicLinkerSays) {
  EXPECT_TRUE(
      launcher::file_of("libc.so.6", list_libraries(tests::program("dlrun"))).starts_with('/'));
  EXPECT_EQ(libpmix_of(tests::program("dlrun"), ""), "");
  EXPECT_EQ(libpmix_of("/nowhere/program", ""), "");
}

TEST(ListLibraries, ReadsTheLinesOfTheDynamicLinker) {
  EXPECT_EQ(launcher::libraries_in("\tlinux-vdso.so.1 (0x00007f42)\n"
                                   "\tliba b.so => /opt/a b (1)/liba b.so (0x00007f)\n"
                                   "\tlibpmix.so.2 => not found\n"
                                   "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
                                   "ld.so: x => /y\n"),
            (Libraries{{"liba b.so", "/opt/a b (1)/liba b.so"}, {"libpmix.so.2", ""}}));
  EXPECT_EQ(launcher::libraries_in(""), Libraries());
}

TEST(Version, OfALibpmixIsItsOwnWord) {
  EXPECT_EQ(major_version("OpenPMIx 4.2.2 (PMIx Standard: 4.1, Stable ABI: 4.1)"), 4);
  EXPECT_EQ(major_version("OpenPMIx 15.0.11rc1 (PMIx Standard: 5.1)"), 15);
  EXPECT_EQ(major_version("OpenPMIx"), 0);
  EXPECT_EQ(major_version("OpenPMIx x"), 0);
  EXPECT_EQ(major_version("4.2"), 0);
  EXPECT_EQ(version_of(tests::program("../tests/made_up_pmix/libpmix.so.2")),
            "OpenPMIx 99.0.1 (made up)");
  EXPECT_EQ(version_of("/nowhere/libpmix.so.2"), "");
  EXPECT_EQ(version_of(tests::program("dlrun")), "") << "a program";
}

}  // namespace
}  // namespace dl::pmix
