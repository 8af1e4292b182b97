// The programs of the book's chapters: their log lines, their model, and what they say without
// data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/random/tensor_random.h"
#include "examples/book/cnn.h"
#include "examples/support/python_float.h"
#include "nn/utils/prune/filters.h"
#include "tests/examples/book/run_book.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using examples::book::CNN;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using tests::out_of_book;
using tests::Process;
using tests::program;

TEST(Book, ItsNetworkHasTheBooksParameters) {
  EXPECT_EQ(CNN().count_parameters(), 1'630'090);
  EXPECT_EQ(CNN({.bias = false}).count_parameters(), 1'629'472);
  EXPECT_EQ(CNN({.third_fc = true}).count_parameters(), 1'758'858);
  CNN cifar({.channels = 3, .size = 32});
  EXPECT_EQ(cifar.count_parameters(), 2'122'186);
  EXPECT_EQ(cifar.named_parameters().front().name, "layer1.0.weight");
  EXPECT_EQ(cifar.named_parameters().back().name, "fc2.bias");
}

TEST(Book, Chapter1PrintsItsLinesAndLearns) {
  // Large steps, so that one pass over the digits shows that it learns.
  const tests::TempDir dir;
  const std::string exported = dir.path() + "/cnn.onnx";
  const std::string out =
      out_of_book({"1", "--digits", "--epochs", "1", "--lr", "0.001", "--onnx", exported});
  EXPECT_THAT(out, HasSubstr("1630090 parameters\n"));
  // What a forward pass consists of.
  for (const char* text : {"Self CPU %", "conv2d", "linear", "max_pool2d"}) {
    EXPECT_THAT(out, HasSubstr(text));
  }
  EXPECT_THAT(out, ContainsRegex("Epoch .1/1., Loss: [0-9]+\\.[0-9][0-9][0-9][0-9]\n"
                                 "Training time: [0-9]+ seconds\n"
                                 "Accuracy of the network on the [0-9]+ test images: [0-9.]+ %\n"));
  EXPECT_THAT(out, HasSubstr("\nExported to " + exported + "\n"));
  EXPECT_GT(std::filesystem::file_size(exported), 4 * 1'630'090U);
  const std::string share = out.substr(out.rfind(": ") + 2);
  EXPECT_GT(std::stod(share), 50) << out;
}

TEST(Book, LaterChaptersShowTheTimeOfEachEpoch) {
  const std::string epoch =
      "Epoch .1/1., Loss: [0-9]+\\.[0-9][0-9][0-9][0-9], time: [0-9]+ seconds\n";
  const std::vector<std::string> words = {"--digits", "--epochs", "1", "--batch-size", "512"};
  for (const std::string chapter : {"4", "5", "7"}) {
    std::vector<std::string> line = {chapter};
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_THAT(out_of_book(line), ContainsRegex(epoch + "Training time: [0-9]+ seconds\n"))
        << chapter;
  }
}

TEST(Book, Chapter2ComparesItsRuns) {
  const std::string out = out_of_book({"2", "--digits", "--epochs", "1", "--lr", "0.001"});
  EXPECT_THAT(out, HasSubstr("no bias:\nEpoch [1/1], Loss: "));
  const std::string row = " +[0-9]+\\.[0-9][0-9] +[0-9]\\.[0-9]+ +[0-9]+\\.[0-9][0-9] %\n";
  EXPECT_THAT(out, ContainsRegex("run +parameters +seconds +loss +accuracy\nbatch 64 +1630090" +
                                 row + "no bias +1629472" + row + "batch 128 +1630090" + row +
                                 "batch 256 +1630090" + row));
}

TEST(Book, Chapter3ComparesBackends) {
  const auto of_backend = [](const std::string& backend) {
    return out_of_book({"3", "--digits", "--epochs", "2", "--batch-size", "256", "--lr", "0.001",
                        "--backend", backend});
  };
  const std::string eager = of_backend("eager");
  const std::string tape = of_backend("auto");
  EXPECT_THAT(tape, AllOf(HasSubstr("Backends: eager, tape, cuda_graph\n"),
                          ContainsRegex("First epoch: [0-9.]+ seconds; median of the later 1: "
                                        "[0-9.]+ seconds\nauto: 2 tapes of [0-9]+ steps"),
                          HasSubstr(" replays, ")));
  EXPECT_THAT(eager, HasSubstr("\neager: 0 tapes"));
  // The steps are the same.
  const auto result = [](const std::string& out) {
    const std::size_t line = out.find("Accuracy");
    return out.substr(line, out.find('\n', line) - line);
  };
  EXPECT_EQ(result(eager), result(tape));
  Process unknown({program("book"), "3", "--backend", "inductor"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("cuda_graph"));
}

TEST(Book, HalfOfTheFiltersAreHalfOfTheNetwork) {
  namespace prune = nn::utils::prune;
  CNN cifar({.channels = 3, .size = 32});
  const Tensor sample = rand({1, 3, 32, 32});
  prune::prune_filters(cifar, sample, {{.op_types = {"Conv2d"}, .sparsity_per_layer = 0.5}});
  EXPECT_EQ(cifar.count_parameters(), 2'122'186);
  const prune::SpeedUp cut = prune::speed_up(cifar, sample);
  EXPECT_EQ(cut.parameters_after, 1'059'306);
  EXPECT_EQ(cifar.named_parameters().front().tensor.sizes(), (Shape{16, 3, 3, 3}));
  EXPECT_EQ(cifar.named_parameters().back().name, "fc2.bias");
}

TEST(Book, Chapter6ShowsWhatPruningCostsAndGives) {
  const tests::TempDir dir;
  const std::string plot = dir.path() + "/pruning.svg";
  const std::string out =
      out_of_book({"6", "--epochs", "1", "--sparsity", "80", "50", "--plot", plot});
  EXPECT_THAT(out, AllOf(HasSubstr("epoch more"), ContainsRegex("\n +0 % +1630090 +2122186 +[0-9]"),
                         ContainsRegex("\n +50 % +[0-9]+ +1059306 +[0-9]"),
                         ContainsRegex("\n +80 % +[0-9]+ +[0-9]+ +[0-9]")));
  EXPECT_LT(out.find(" 50 % "), out.find(" 80 % "));
  EXPECT_THAT(tests::read_file(plot),
              AllOf(HasSubstr("<svg "), HasSubstr("parameters"), HasSubstr("</svg>\n")));
}

TEST(Book, SaysWhichFilesItWants) {
  Process fashion({program("book"), "1"});
  EXPECT_EQ(fashion.wait(), 2);
  EXPECT_THAT(fashion.err(),
              AllOf(HasSubstr("Fashion-MNIST"), HasSubstr("train-images-idx3-ubyte.gz")));
  Process cifar({program("book"), "7"});
  EXPECT_EQ(cifar.wait(), 2);
  EXPECT_THAT(cifar.err(), AllOf(HasSubstr("CIFAR-10"), HasSubstr("data_batch_1.bin")));
  Process missing({program("book"), "4", "--data-dir", "/nonexistent"});
  EXPECT_EQ(missing.wait(), 1);
  EXPECT_THAT(missing.err(), HasSubstr("/nonexistent"));
  Process chapter({program("book"), "12"});
  EXPECT_EQ(chapter.wait(), 2);
}

TEST(Book, WritesPercentagesAsPythonDoes) {
  EXPECT_EQ(examples::python_float(92.5), "92.5");
  EXPECT_EQ(examples::python_float(83.99), "83.99");
  EXPECT_EQ(examples::python_float(84), "84.0");
  EXPECT_EQ(examples::python_float(100.0 * 8399 / 10000), "83.99");
}

}  // namespace
}  // namespace dl
