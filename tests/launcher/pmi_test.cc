// PMI-1, as MPICH speaks it: the rules, and which programs are linked to an MPI.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <vector>

#include "launcher/pmi/pmi_space.h"
#include "launcher/pmi/which_mpi.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string said(PmiSpace& space, int rank, std::string_view line) {
  const PmiSpace::Answer answer = space.answer(rank, line);
  EXPECT_EQ(answer.fault, "");
  std::string text;
  for (const PmiSpace::Line& one : answer.lines) text += one.text;
  return text;
}

PmiSpace greeted(int size, const std::vector<int>& apps = {}) {
  PmiSpace space(size, apps);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(said(space, rank, "cmd=init pmi_version=1 pmi_subversion=1"),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  }
  return space;
}

TEST(PmiSpace, AnswersWhatMpiInitAsks) {
  PmiSpace space = greeted(3);
  EXPECT_EQ(said(space, 1, "cmd=get_maxes"),
            "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(said(space, 1, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
  EXPECT_EQ(said(space, 1, "cmd=get_universe_size"), "cmd=universe_size size=3\n");
  EXPECT_EQ(said(space, 1, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=kvs\n");
  EXPECT_EQ(said(space, 1, "cmd=get kvsname=kvs key=PMI_process_mapping"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n");
  EXPECT_EQ(said(space, 1, "cmd=finalize"), "cmd=finalize_ack\n");
}

TEST(PmiSpace, TellsARankTheNumberOfItsProgram) {
  PmiSpace space = greeted(4, {1, 3});
  EXPECT_EQ(said(space, 0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
  EXPECT_EQ(said(space, 1, "cmd=get_appnum"), "cmd=appnum appnum=1\n");
  EXPECT_EQ(said(space, 3, "cmd=get_appnum"), "cmd=appnum appnum=1\n");
}

TEST(PmiSpace, KeepsWhatIsPutOnce) {
  PmiSpace space = greeted(2);
  EXPECT_EQ(said(space, 0, "cmd=put kvsname=kvs key=P0 value=a#b=c"),
            "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(said(space, 1, "cmd=get kvsname=kvs key=P0"),
            "cmd=get_result rc=0 msg=success value=a#b=c\n");
  EXPECT_EQ(said(space, 1, "cmd=put kvsname=kvs key=P0 value=other"),
            "cmd=put_result rc=-1 msg=duplicate_key\n");
  EXPECT_EQ(said(space, 1, "cmd=get kvsname=kvs key=P1"),
            "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(said(space, 1, "cmd=get kvsname=other key=P0"),
            "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(said(space, 1, "cmd=put kvsname=kvs key=" + std::string(65, 'k') + " value=v"),
            "cmd=put_result rc=-1 msg=too_long\n");
}

TEST(PmiSpace, KnowsTheSharedMemoryOfMpich) {
  const auto hex = [](std::string_view text) {
    std::string digits;
    for (const char c : text) digits += fmt::format("{:02X}", static_cast<unsigned char>(c));
    return digits;
  };
  PmiSpace space = greeted(1);
  int number = 0;
  const auto put = [&](const std::string& value) {
    said(space, 0, fmt::format("cmd=put kvsname=kvs key=-bcast-1-{} value={}", number++, value));
  };
  for (const char* other :
       {"/dev/shm/mpich_shar_tmp/../a", "/dev/shm/mpich_shar_tmpa", "/dev/shm/other_shar_tmpabcdef",
        "/dev/shm/mpich_shar_tmpabcde/", "/dev/shm/mpich_shar_tmpabcdefg"}) {
    put(hex(other));
  }
  put(std::string(58, 'x'));
  put(hex(std::string_view("/dev/shm/mpich_shar_tmpabc\0ef", 29)));
  said(space, 0, "cmd=put kvsname=kvs key=other value=" + hex("/dev/shm/mpich_shar_tmpabcdef"));
  EXPECT_THAT(space.shared_files(), IsEmpty());
  put(hex("/dev/shm/mpich_shar_tmpaB9xyz"));
  EXPECT_THAT(space.shared_files(), ElementsAre("/dev/shm/mpich_shar_tmpaB9xyz"));
}

TEST(PmiSpace, ABarrierEndsWhenAllAreIn) {
  PmiSpace space = greeted(3);
  EXPECT_THAT(space.awaited(), IsEmpty());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(said(space, 2, "cmd=barrier_in"), "");
    EXPECT_EQ(said(space, 0, "cmd=barrier_in"), "");
    EXPECT_THAT(space.waiting(), ElementsAre(0, 2));
    EXPECT_THAT(space.awaited(), ElementsAre(1));
    EXPECT_EQ(space.answer(1, "cmd=barrier_in").lines.size(), 3U);
    EXPECT_THAT(space.waiting(), IsEmpty());
  }
}

TEST(PmiSpace, ABarrierDoesNotWaitForARankThatHasLeft) {
  PmiSpace space = greeted(3);
  EXPECT_TRUE(space.leave(1).lines.empty());
  EXPECT_EQ(said(space, 2, "cmd=barrier_in"), "");
  EXPECT_THAT(space.awaited(), ElementsAre(0));
  EXPECT_EQ(said(space, 0, "cmd=barrier_in"), "cmd=barrier_out rc=0\ncmd=barrier_out rc=0\n");
  // One that leaves inside of a barrier is no longer counted there.
  EXPECT_EQ(said(space, 2, "cmd=barrier_in"), "");
  EXPECT_TRUE(space.leave(2).lines.empty());
  EXPECT_THAT(space.waiting(), IsEmpty());
  EXPECT_EQ(said(space, 0, "cmd=barrier_in"), "cmd=barrier_out rc=0\n");
}

TEST(PmiSpace, TellsWhoHasBegun) {
  PmiSpace space(2);
  EXPECT_FALSE(space.has_begun(1));
  EXPECT_EQ(said(space, 1, "cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_TRUE(space.has_begun(1));
  EXPECT_FALSE(space.has_begun(0));
}

TEST(PmiSpace, TellsWhoIsInMpi) {
  PmiSpace space(1);
  EXPECT_FALSE(space.is_in_mpi(0));
  for (int program = 0; program < 2; ++program) {  // one after the other
    said(space, 0, "cmd=init pmi_version=1 pmi_subversion=1");
    EXPECT_TRUE(space.is_in_mpi(0));
    said(space, 0, "cmd=finalize");
    EXPECT_FALSE(space.is_in_mpi(0));
  }
}

TEST(PmiSpace, RefusesToStartFurtherProcesses) {
  PmiSpace space = greeted(1);
  for (const char* line : {"mcmd=spawn", "nprocs=2", "execname=x", "cmd=init"}) {
    EXPECT_EQ(said(space, 0, line), "");
  }
  EXPECT_THAT(said(space, 0, "endcmd"), HasSubstr("cmd=spawn_result rc=-1"));
  EXPECT_EQ(said(space, 0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
}

TEST(PmiSpace, PassesOnTheNumberOfMpiAbort) {
  const std::pair<const char*, int> codes[] = {
      {"cmd=abort exitcode=7", 7},   {"cmd=abort", 1},
      {"cmd=abort exitcode=0", 0},   {"cmd=abort exitcode=738871814", 738871814},
      {"cmd=abort exitcode=-1", -1}, {"cmd=abort exitcode=x", 1}};
  for (const auto& [line, code] : codes) {
    EXPECT_EQ(greeted(2).answer(1, line).abort_code, code) << line;
  }
}

TEST(PmiSpace, ClosesTheConnectionOfARankThatSpeaksOtherwise) {
  for (const char* line : {"", "x", "cmd", "cmd=", "cmd=init pmi_version=2", "cmd=get_appnum"}) {
    EXPECT_NE(PmiSpace(2).answer(0, line).fault, "") << line;
  }
  for (const char* line : {"cmd=fullinit", "cmd=put", "cmd=put kvsname=kvs key= value=1",
                           "cmd=put key=a value=1", "kvs=1", "=", " cmd"}) {
    PmiSpace space = greeted(2);
    EXPECT_NE(space.answer(0, line).fault, "") << line;
  }
  PmiSpace space = greeted(2);
  EXPECT_EQ(said(space, 0, "cmd=barrier_in"), "");
  EXPECT_NE(space.answer(0, "cmd=barrier_in").fault, "") << "twice in one barrier";
}

TEST(WhichMpi, ReadsTheLibrariesOfAProgram) {
  const std::string self = tests::read_file("/proc/self/exe");
  const std::vector<std::string_view> needed = needed_libraries(self);
  EXPECT_THAT(needed, ::testing::Contains("libc.so.6"));
  EXPECT_EQ(which_mpi("/proc/self/exe").kind, MpiKind::kNone);
  EXPECT_EQ(which_mpi("/there/is/none").kind, MpiKind::kNone);
  EXPECT_EQ(which_mpi("/proc").kind, MpiKind::kNone);
  EXPECT_THAT(needed_libraries(tests::read_file(__FILE__)), IsEmpty());
}

TEST(WhichMpi, ReadsNothingOutsideOfADamagedFile) {
  const std::string self = tests::read_file("/proc/self/exe");
  const auto expect_inside = [](std::string_view file) {
    const std::less_equal<> comes_first;
    std::vector<std::string_view> found;
    EXPECT_NO_THROW(found = needed_libraries(file));
    for (const std::string_view name : found) {
      EXPECT_TRUE(comes_first(file.data(), name.data()) &&
                  comes_first(name.data() + name.size(), file.data() + file.size()));
    }
  };
  for (std::size_t size = 0; size < 2048; size += 7) {
    // Memory of its own, of which a sanitizer knows the end.
    const std::vector<char> part(self.begin(), self.begin() + static_cast<std::ptrdiff_t>(size));
    expect_inside({part.data(), part.size()});
  }
  // Numbers of the header and of the table of segments, each made huge.
  for (std::size_t at = 16; at + 8 < 64 + 56 * 12; at += 2) {
    std::string damaged = self.substr(0, std::size_t{1} << 16);
    for (std::size_t i = 0; i < 8; ++i) damaged[at + i] = '\xff';
    expect_inside(damaged);
  }
}

// This test's own program, as if it were linked to `library`.
Program linked_to(const std::string& library, const std::string& path) {
  std::string file = tests::read_file("/proc/self/exe");
  std::string needed;
  for (const std::string_view name : needed_libraries(file)) {
    if (name.size() >= library.size()) needed = name;
  }
  EXPECT_FALSE(needed.empty());
  const std::string old = needed + '\0';
  std::string name = library;
  name.resize(old.size());
  for (std::size_t at = 0; (at = file.find(old, at)) != std::string::npos; at += old.size()) {
    file.replace(at, old.size(), name);
  }
  std::ofstream(path, std::ios::binary) << file;
  Program program;
  program.path = path;
  program.can_be_read = true;
  return program;
}

std::vector<std::string> unserved(Mpi mpi, const std::vector<Program>& programs) {
  Options options;
  options.job.mpi = mpi;
  options.job.apps.resize(programs.size());
  return unserved_mpis(options, programs);
}

TEST(WhichMpi, AProgramOfTheOtherMpiIsToldToTheUser) {
  const tests::TempDir folder;
  const Program open_mpi = linked_to("libmpi.so.40", folder.path() + "/open");
  const Program mpich = linked_to("libmpi.so.12", folder.path() + "/mpich");
  EXPECT_THAT(unserved(Mpi::kPmi1, {open_mpi, mpich, open_mpi}),
              ElementsAre("--mpi pmi1 serves programs of MPICH, and " + open_mpi.path +
                          " is linked to Open MPI (libmpi.so.40): each of its ranks will be an MPI "
                          "job of its own; write --mpi pmix, or leave --mpi out"));
  EXPECT_THAT(unserved(Mpi::kPmix, {open_mpi, mpich}),
              ElementsAre(HasSubstr("--mpi pmix serves programs of Open MPI, and " + mpich.path +
                                    " is linked to MPICH (libmpi.so.12)")));
  Program script;
  script.path = "/bin/sh";
  script.can_be_read = true;
  for (const Mpi mpi : {Mpi::kAuto, Mpi::kNone}) {
    EXPECT_THAT(unserved(mpi, {open_mpi, mpich}), IsEmpty());
  }
  EXPECT_THAT(unserved(Mpi::kPmix, {script}), IsEmpty());
}

TEST(WhichMpi, KnowsTheNamesOfLibraries) {
  for (const char* name : {"libmpich.so.12", "libmpi.so.12", "libmpi.so.12.1.8", "libmpifort.so.12",
                           "libmpi_gnu_91.so.12", "libmpichfort.so.12"}) {
    EXPECT_EQ(mpi_of_library(name), MpiKind::kMpich) << name;
  }
  for (const char* name :
       {"libmpi.so.40", "libmpi.so.20", "libmpi_mpifh.so.40", "libmpi_cxx.so.40"}) {
    EXPECT_EQ(mpi_of_library(name), MpiKind::kOpenMpi) << name;
  }
  for (const char* name : {"libc.so.6", "libmpich", "libmpi", "libmpiwrap.so", ""}) {
    EXPECT_EQ(mpi_of_library(name), MpiKind::kNone) << name;
  }
}

}  // namespace
}  // namespace dl::launcher
