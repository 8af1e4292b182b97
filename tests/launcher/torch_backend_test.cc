// --torch-backend: which Python is asked, and the sentences that refuse it. The packages are
// folders of metadata, as pip leaves them; none of them has code.
#include "launcher/plan/torch_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kEntryPoint = "[torch.backends]\ndlrun = dlrun.torch:anything\n";

class TorchBackendOption : public testing::Test {
 protected:
  void install(const std::string& package, const std::string& version,
               const std::string& entry_points = "") const {
    const fs::path info = fs::path(site_.path()) / (package + "-" + version + ".dist-info");
    fs::create_directory(info);
    std::ofstream(info / "METADATA")
        << "Metadata-Version: 2.1\nName: " << package << "\nVersion: " << version << "\n";
    if (!entry_points.empty()) std::ofstream(info / "entry_points.txt") << entry_points;
  }
  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0700);
    return path;
  }
  std::string shows_backend() const {
    return file("train.py", "import os\nprint('backend', os.environ.get('DLRUN_TORCH_BACKEND'))\n");
  }
  struct Ended {
    int code;
    std::string out;
    std::string err;
  };
  Ended run(std::vector<std::string> words, std::vector<std::string> environment = {}) const {
    words.insert(words.begin(), {tests::program("dlrun"), "--no-prefix"});
    environment.push_back("PYTHONPATH=" + site_.path());
    tests::Process job(words, {.environment = environment});
    const int code = job.wait();
    return {code, job.out(), job.err()};
  }

  tests::TempDir site_;
  tests::TempDir folder_;
};

TEST_F(TorchBackendOption, SetsTheVariableIfPyTorchWillReadIt) {
  install("torch", "2.14.0");
  install("dlrun", "0.3", kEntryPoint);
  const std::string script = shows_backend();
  const std::string shebang = file("tool",
                                   "#!/usr/bin/env python3\nimport os\nprint('backend', "
                                   "os.environ['DLRUN_TORCH_BACKEND'])\n");
  for (const std::vector<std::string>& program :
       {std::vector<std::string>{script}, {"python3", script}, {shebang}}) {
    std::vector<std::string> line = {"--torch-backend", "dlrun"};
    line.insert(line.end(), program.begin(), program.end());
    const Ended ended = run(line);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "backend dlrun\n");
    EXPECT_EQ(ended.err, "");
  }
  EXPECT_EQ(run({script}).out, "backend None\n");
  EXPECT_EQ(run({"--torch-backend=gloo", script}, {"DLRUN_TORCH_BACKEND=dlrun"}).out, "backend \n");
}

TEST_F(TorchBackendOption, IsRefusedIfItWouldHaveNoEffect) {
  const std::string script = shows_backend();
  const auto refusal = [&](const std::string& program,
                           const std::vector<std::string>& environment = {}) {
    const Ended ended = run({"--torch-backend=dlrun", program}, environment);
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refusal("true"),
              HasSubstr("dlrun: --torch-backend dlrun needs a program of Python, and `true` is "
                        "none: write Python's own line"));
  EXPECT_THAT(refusal(script), HasSubstr("python3 has no PyTorch"));
  install("torch", "2.13.1+cpu");
  EXPECT_THAT(
      refusal(script),
      AllOf(
          HasSubstr("PyTorch 2.13.1+cpu of "),
          HasSubstr(
              " cannot take a backend in Gloo's place, wanted 2.14 or newer; with this one say ")));
  fs::remove_all(site_.path() + "/torch-2.13.1+cpu.dist-info");
  install("torch", "2.15.0a0");
  EXPECT_THAT(refusal(script), HasSubstr("the package dlrun is not installed for /"));
  install("dlrun", "0.1");
  EXPECT_THAT(refusal(script), HasSubstr("the package dlrun 0.1 of /"));
  EXPECT_THAT(
      refusal(script, {"TORCH_DEVICE_BACKEND_AUTOLOAD=0"}),
      HasSubstr("TORCH_DEVICE_BACKEND_AUTOLOAD is `0`, so that PyTorch does not look for it"));
}

TEST_F(TorchBackendOption, APythonThatCannotAnswerIsNamed) {
  const std::string python = file("python3", "#!/bin/sh\necho no such module >&2\nexit 9\n");
  const Ended ended = run({"--torch-backend=dlrun", shows_backend()}, {"PYTHON_EXEC=" + python});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr(python + " does not say which packages it has: it ended with "
                                            "exit code 9: no such module\n"));
}

TEST_F(TorchBackendOption, AsksThePythonThatRunsTheProgram) {
  const auto python = [&](const std::string& text) {
    const std::string path = file("program", text);
    return python_of({path}, Program{path, 0, "", /*can_be_read=*/true});
  };
  EXPECT_THAT(python("#!/opt/env/bin/python3.12 -u\n"), ElementsAre("/opt/env/bin/python3.12"));
  EXPECT_THAT(python("#! /usr/bin/env python3\n"), ElementsAre("python3"));
  EXPECT_THAT(python("#!/usr/bin/env -S python3 -u\n"), ElementsAre("python3"));
  for (const char* text :
       {"#!/bin/sh python\n", "#!/usr/bin/env perl\n", "#!\n", "", "python3\n"}) {
    EXPECT_THAT(python(text), IsEmpty()) << text;
  }
  EXPECT_THAT(python_of({"pypy3", "x"}, Program{"/usr/bin/pypy3", 0, ""}), ElementsAre("pypy3"));
}

}  // namespace
}  // namespace dl::launcher
