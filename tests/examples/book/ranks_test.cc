// The book's chapters on several ranks: their tables, their plots, and what a larger batch does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/plot.h"
#include "tests/core/support.h"
#include "tests/examples/book/run_book.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::out_of;
using tests::out_of_book;
using tests::Process;
using tests::program;

std::string err_of_book(std::vector<std::string> words) {
  words.insert(words.begin(), program("book"));
  Process process(words);
  EXPECT_EQ(process.wait(), 2);
  return process.err();
}

// The 1,433 digits are divided among the ranks, rounded up.
int steps_of_epoch(int ranks, int rank_batch) {
  const int samples = (1433 + ranks - 1) / ranks;
  return (samples + rank_batch - 1) / rank_batch;
}

// Its elements are closed in their order.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != xml.npos; at = xml.find('<', at)) {
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, xml.npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.ends_with('/')) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with('/')) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    EXPECT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

std::string picture_in(const std::string& path) {
  const std::string svg = tests::read_file(path);
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(HasSubstr(">Time of training</text>"), HasSubstr(">seconds</text>"),
                         HasSubstr(">Accuracy</text>"), HasSubstr(">%</text>")));
  return svg;
}

TEST(Plots, StandBelowEachOther) {
  const examples::Plot plot{
      .title = "a < b", .x_label = "x", .y_label = "y", .lines = {{"l", {{1, 2}}}}};
  const std::string svg = examples::svg_of({plot, plot});
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("viewBox=\"0 0 720 840\""), HasSubstr("translate(0 0)"),
                         HasSubstr("translate(0 420)"), HasSubstr("<title>a &lt; b; a &lt; b<")));
  const examples::Plot no_points{
      .title = "a", .x_label = "x", .y_label = "y", .lines = {{"empty", {}}}};
  EXPECT_ERROR(examples::svg_of({no_points}), kInvalidArgument,
               "plot: the line \"empty\" has no points");
}

TEST(BookRanks, Chapter8ShowsTheStepsOfATraining) {
  const std::string out = out_of_book({"8", "--epochs", "1", "--threads", "1", "--device", "cpu"});
  EXPECT_THAT(out, AllOf(HasSubstr("rank 3 has                 [4 5 6]\n"),
                         HasSubstr("reduce to rank 0, sum      [10 14 18]\n"),
                         HasSubstr("all_reduce, sum            [10 14 18]\n"),
                         HasSubstr("all_reduce, product        [24 120 360]\n"),
                         HasSubstr("all_reduce, average        [2.5 3.5 4.5]\n"),
                         HasSubstr("all_reduce, minimum        [1 2 3]\n"),
                         HasSubstr("all_reduce, maximum        [4 5 6]\n")));
  EXPECT_THAT(out, ContainsRegex("Worker 0 - Epoch .1/1., Loss: [0-9.]+, time: [0-9]+ seconds\n"
                                 "Worker 0 - Training time: [0-9]+ seconds\n"
                                 "Worker 0 - Accuracy of the network on the 364 test images"));
  EXPECT_THAT(out, HasSubstr("Both stages are on cpu, as there are no two GPUs\n"));
  // All arrangements train alike. Sums over ranks are rounded otherwise, and their last batch has
  // three digits more.
  std::istringstream table(out.substr(out.find("ranks arrangement")));
  std::string line;
  std::getline(table, line);
  struct Row {
    int batch, rank_batch, steps;
    double seconds, loss, percent;
  };
  const auto next_row = [&](const std::string& arrangement) {
    std::getline(table, line);
    EXPECT_THAT(line, HasSubstr(arrangement));
    std::istringstream numbers(line.substr(line.find(arrangement) + arrangement.size()));
    Row row{};
    numbers >> row.batch >> row.rank_batch >> row.steps >> row.seconds >> row.loss >> row.percent;
    EXPECT_EQ(row.batch, 64) << line;
    EXPECT_EQ(row.steps, steps_of_epoch(1, 64)) << line;
    EXPECT_GT(row.percent, 60) << line;
    return row;
  };
  const Row alone = next_row("one process");
  const Row replicas = next_row("replicas");
  const Row stages = next_row("two stages");
  EXPECT_EQ(replicas.rank_batch, 16);
  EXPECT_NEAR(replicas.percent, alone.percent, 3);
  EXPECT_NEAR(stages.loss, alone.loss, 1e-3);
}

TEST(BookRanks, Chapter8GoesOnFromItsCheckpoint) {
  const tests::TempDir dir;
  std::vector<std::string> argv = tests::dlrun({"--no-prefix", "-n", "2", program("book")});
  argv.insert(argv.end(), {"8", "--epochs", "2", "--batch-size", "128", "--device", "cpu",
                           "--checkpoint-dir", dir.path()});
  // The loss of the last epoch and the accuracy, without times.
  const auto end_of = [](const std::string& out) {
    const std::size_t epoch = out.find("Epoch [2/2], Loss: ");
    return out.substr(epoch, 25) + out.substr(out.find("Accuracy"));
  };
  const std::string whole = out_of(argv);
  EXPECT_THAT(whole, HasSubstr("Worker 0 - Epoch [1/2], Loss: "));
  // As if the run had been killed in its second epoch.
  EXPECT_GT(std::filesystem::remove_all(dir.path() + "/step-000000000002"), 0U);
  const std::string resumed = out_of(argv);
  EXPECT_THAT(resumed, HasSubstr("\nWorker 0 - Goes on after epoch 1\nWorker 0 - Epoch [2/2], "));
  EXPECT_EQ(end_of(resumed), end_of(whole));
}

TEST(BookRanks, Chapter9PrintsATableOfRanksAndThreads) {
  const tests::TempDir dir;
  const std::string plot = dir.path() + "/cpus.svg";
  const std::string row = " +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ %\n";
  EXPECT_THAT(
      out_of_book({"9", "--epochs", "1", "--batch-size", "256", "--threads", "2", "--plot", plot}),
      ContainsRegex("^ranks +threads +backend +batch +a rank +steps +seconds +loss "
                    "+accuracy\n +1 +1 +-" +
                    row + " +1 +2 +-" + row + " +2 +1 +tcp" + row + " +2 +1 +shm" + row + "$"));
  EXPECT_THAT(picture_in(plot),
              AllOf(HasSubstr(">one rank</text>"), HasSubstr(">ranks over tcp</text>"),
                    HasSubstr(">ranks over shm</text>"), HasSubstr("ranks that share 2<")));
}

TEST(BookRanks, RanksOfAJobTrainTogether) {
  std::vector<std::string> job = tests::dlrun({"--no-prefix", "-n", "2", program("book")});
  job.insert(job.end(), {"10", "--epochs", "1", "--batch-size", "256", "--device", "cpu"});
  EXPECT_THAT(out_of(job),
              ContainsRegex("^Worker 0 - Epoch .1/1., Loss: [0-9.]+, time: [0-9]+ seconds\n"
                            "Worker 0 - Training time: [0-9]+ seconds\nWorker 0 - Accuracy of "
                            "the network on the 364 test images: [0-9.]+ %\n$"));
}

TEST(BookRanks, Chapter10ComparesWhatMoreRanksDoWithABatch) {
  const tests::TempDir dir;
  const std::string plot = dir.path() + "/ranks.svg";
  std::istringstream lines(out_of_book({"10", "--epochs", "1", "--ranks", "2", "--threads", "1",
                                        "--device", "cpu", "--json", "--plot", plot}));
  std::map<std::string, json> rows;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    EXPECT_EQ(row.at("ranks"), rows.empty() ? 1 : 2);
    rows[row.at("kind")] = row;
  }
  ASSERT_EQ(rows.size(), 4U);
  const json& alone = rows.at("-");
  EXPECT_EQ(alone.at("global_batch"), 64);
  EXPECT_EQ(alone.at("steps"), steps_of_epoch(1, 64));
  EXPECT_EQ(alone.at("device"), "cpu");
  EXPECT_GT(alone.at("accuracy"), 70);
  // As many steps with the same samples: the same accuracy within noise.
  const json& fixed = rows.at("fixed");
  EXPECT_EQ(fixed.at("global_batch"), 64);
  EXPECT_EQ(fixed.at("rank_batch"), 32);
  EXPECT_EQ(fixed.at("steps"), alone.at("steps"));
  EXPECT_NEAR(fixed.at("accuracy"), alone.at("accuracy"), 3);
  EXPECT_EQ(fixed.at("accuracies"), json::array({fixed.at("accuracy")}));
  for (const char* kind : {"growing", "scaled"}) {
    const json& grown = rows.at(kind);
    EXPECT_EQ(grown.at("global_batch"), 128);
    EXPECT_EQ(grown.at("rank_batch"), 64);
    EXPECT_EQ(grown.at("steps"), steps_of_epoch(2, 64));
  }
  // Fewer steps at the same rate learn less, which a larger rate makes up for.
  const double growing_loss = rows.at("growing").at("loss");
  EXPECT_GT(growing_loss, 1.3 * fixed.at("loss").get<double>());
  EXPECT_GT(growing_loss, 1.1 * rows.at("scaled").at("loss").get<double>());
  EXPECT_THAT(picture_in(plot), AllOf(HasSubstr(">fixed</text>"), HasSubstr(">growing</text>"),
                                      HasSubstr(">scaled</text>"), HasSubstr(">ranks</text>")));
}

TEST(BookRanks, Chapter10TrainsOtherNetworks) {
  EXPECT_THAT(out_of_book({"10", "--model", "mobilenet_v3_small", "--epochs", "1", "--batch-size",
                           "512", "--ranks", "1", "--threads", "1", "--device", "cpu"}),
              ContainsRegex("^Each rank has 1 thread of the CPU, where the book's has a GPU\n"
                            "ranks +kind +batch +a rank +steps +seconds +loss +accuracy\n"
                            " +1 +- +512 +512 +3 +[0-9.]+ +[0-9.]+ +[0-9.]+ %\n$"));
}

TEST(BookRanks, Chapter11TrainsOnImitatedMachines) {
  const tests::TempDir dir;
  const std::string plot = dir.path() + "/machines.svg";
  const std::string out =
      out_of_book({"11", "--epochs", "1", "--threads", "1", "--device", "cpu", "--plot", plot});
  EXPECT_THAT(out, AllOf(HasSubstr("`dlrun --hosts machine1:8,machine2:8 book 11`"),
                         HasSubstr("Here 2 machines of 2 ranks are imitated")));
  EXPECT_THAT(out, ContainsRegex(" rank +machine +local rank +device\n"
                                 " +0 +1 +0 +cpu on .*\n +1 +1 +1 +cpu on .*\n"
                                 " +2 +2 +0 +cpu on .*\n +3 +2 +1 +cpu on .*\n"
                                 "ranks +machines +kind +batch +a rank +steps"));
  const std::string row = " +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ %\n";
  EXPECT_THAT(out, ContainsRegex("\n +2 +1 +growing +128 +64" + row + " +4 +2 +growing +256 +64" +
                                 row + "$"));
  EXPECT_THAT(picture_in(plot), HasSubstr(">machines</text>"));
}

TEST(BookRanks, Chapter11OfAJobTakesItsMachines) {
  std::vector<std::string> job = tests::dlrun({"--no-prefix", "-n", "2", program("book")});
  job.insert(job.end(), {"11", "--epochs", "1", "--device", "cpu", "--batch-size", "128", "--seeds",
                         "2", "--global-batch", "fixed"});
  EXPECT_THAT(out_of(job),
              ContainsRegex("\nAll ranks are on one machine.\nranks .*\n +2 +1 +fixed +128 +64 "
                            ".* % .[0-9.]+ to [0-9.]+.\n$"));
}

TEST(BookRanks, SayWhatIsWrongInOneSentence) {
  EXPECT_EQ(err_of_book({"10", "--ranks", "3", "--device", "cpu"}),
            "book: --batch-size 64 is not a multiple of 3 ranks, which divide it with "
            "--global-batch fixed; change --batch-size or --ranks\n");
  EXPECT_EQ(err_of_book({"11", "--device", "gpu"}),
            "book: device \"gpu\": wanted cpu, cuda or cuda:N with N from 0\n");
  EXPECT_THAT(err_of_book({"10", "--global-batch", "larger"}), HasSubstr("fixed,growing,scaled"));
  EXPECT_THAT(err_of_book({"10", "--model", "lenet"}), HasSubstr("efficientnet_b7"));
  EXPECT_THAT(err_of_book({"11", "--ranks", "0"}), HasSubstr("--ranks"));
  EXPECT_THAT(err_of_book({"9", "--seeds", "none"}), HasSubstr("--seeds"));
}

}  // namespace
}  // namespace dl
