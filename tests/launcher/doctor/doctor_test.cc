// `dlrun doctor` as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/sanitizers.h"
#include "launcher/doctor/report.h"
#include "tests/support/process.h"

namespace dl::launcher::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::dlrun;

Report report_with(Verdict verdict) {
  Check check{.name = "a check", .found = "x\x1b[2J\ny", .verdict = verdict};
  if (verdict != Verdict::kOk) check.why = "it matters";
  if (verdict == Verdict::kWrong) check.mend = "mend it";
  return {.hosts = {{.host = "h",
                     .version = "1",
                     .checks = {{.name = "another", .found = "fine"}, check}}},
          .between = {}};
}

TEST(Doctor, ShowsTheWorstFirst) {
  const std::vector<std::string> lines = page(report_with(Verdict::kWrong));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "wrong  a check  x\\x1b[2J y");
  EXPECT_EQ(lines[1], "         why: it matters");
  EXPECT_EQ(lines[2], "         mend: mend it");
  EXPECT_EQ(lines[3], "ok     another  fine");
  EXPECT_EQ(lines[4], "2 checks: 1 wrong, 0 warnings, 0 not known");
}

TEST(Doctor, OnlyWhatIsWrongMakesItFail) {
  EXPECT_TRUE(is_anything_wrong(report_with(Verdict::kWrong)));
  EXPECT_FALSE(is_anything_wrong(report_with(Verdict::kWarn)));
  EXPECT_FALSE(is_anything_wrong(report_with(Verdict::kUnknown)));
  Report between = report_with(Verdict::kOk);
  EXPECT_FALSE(is_anything_wrong(between));
  between.between = report_with(Verdict::kWrong).hosts[0].checks;
  EXPECT_TRUE(is_anything_wrong(between));
}

TEST(Doctor, ReadsWhatAnotherDlrunHasWritten) {
  const Report report = report_with(Verdict::kWarn);
  const auto text =
      json_of(report).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto host = read_host(text);
  ASSERT_TRUE(host);
  EXPECT_EQ(json_of({.hosts = {*host}, .between = {}}), json_of(report));
  for (const char* bad : {"", "{}", "[]", R"({"hosts":[]})", R"({"hosts":[{"host":"a"}]})"}) {
    EXPECT_FALSE(read_host(bad)) << bad;
  }
}

TEST(Doctor, LooksAtThisHost) {
  tests::Process run(dlrun({"doctor", "--json", "--ranks", "1"}));
  const int code = run.wait();
  const auto all = nlohmann::json::parse(run.out());
  EXPECT_EQ(code, all.at("is_anything_wrong") ? 1 : 0) << run.err();
  EXPECT_GE(all.at("hosts").at(0).at("checks").size(), 20U);
  tests::Process text(dlrun({"doctor"}));
  text.wait();
  EXPECT_THAT(text.out(), AllOf(HasSubstr("ulimit -n"), HasSubstr(" checks: ")));
}

TEST(Doctor, EndsWithOneIfSomethingIsWrong) {
  tests::Process run(
      dlrun({"doctor", "--log-dir", "/proc/version/logs"}));  // below a file, as a typing error
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.out(), HasSubstr("wrong  disk of --log-dir"));
  tests::Process many({"sh", "-c", "ulimit -n 64; " + tests::program("dlrun") + " doctor -n 1000"});
  EXPECT_EQ(many.wait(), 1);
  EXPECT_THAT(many.out(), AllOf(HasSubstr("wrong  open files (ulimit -n)"),
                                HasSubstr("for 1000 ranks with logs, and does not start")));
}

TEST(Doctor, SaysThatThereIsNoProc) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs /proc itself";
#endif
  const auto without_proc = [](const std::string& command) {
    return std::vector<std::string>{"unshare", "-m", "sh", "-c",
                                    "mount -t tmpfs none /proc && exec " + command};
  };
  tests::Process can(without_proc("true"));
  if (can.wait() != 0) GTEST_SKIP() << "mounts of its own need root: " << can.err();
  tests::Process run(without_proc(tests::program("dlrun") + " doctor"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_EQ(run.err(),
            "dlrun: dlrun's own file is not found by /proc/self/exe (No such file or directory): "
            "is /proc mounted?\n");
  tests::Process ps(without_proc(tests::program("dlrun") + " ps"));
  EXPECT_EQ(ps.wait(), 1);
  EXPECT_EQ(ps.err(),
            "dlrun: the processes in /proc cannot be read: it is not mounted, or too few files may "
            "be open (ulimit -n)\n");
}

TEST(Doctor, RefusesBadUsage) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"x"}, {"--ranks"}, {"--ranks", "0"}, {"--ranks", "many"}, {"--what"}}) {
    std::vector<std::string> line = dlrun({"doctor"});
    line.insert(line.end(), words.begin(), words.end());
    tests::Process run(line);
    EXPECT_EQ(run.wait(), 2);
  }
  tests::Process full({"sh", "-c", tests::program("dlrun") + " doctor > /dev/full"});
  EXPECT_EQ(full.wait(), 1);
  EXPECT_THAT(full.err(), testing::HasSubstr("dlrun: write to standard output: No space left"));
}

}  // namespace
}  // namespace dl::launcher::doctor
