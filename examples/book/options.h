// The command line of `book`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dl::examples::book {

// An empty option leaves the chapter's value.
struct Options {
  int chapter = 1;
  std::string data_dir;  // with the chapter's data set
  bool digits = false;   // use the digits that come with dlrun instead
  std::optional<std::int64_t> epochs{};
  std::optional<std::int64_t> batch_size{};
  std::optional<double> lr{};
  std::optional<int> workers{};
  int threads = 0;       // 0: OpenMP's default
  std::string device{};  // empty: cpu; in chapters on several ranks the GPUs if they are there
  std::string model = "book";          // of chapters 9 to 11
  int ranks = 0;                       // the most; 0: the chapter's
  std::vector<std::string> batches{};  // of all ranks: fixed, growing, scaled
  int seeds = 1;                       // trainings that a row of chapters 9 to 11 averages
  std::string checkpoint_dir{};        // of chapter 8; empty: none
  std::string backend = "auto";        // of dl::compile
  std::vector<int> sparsities{10, 20, 30, 40, 50, 60, 70, 80};  // of chapter 6, in percent
  bool json = false;
  std::string plot;  // a file
  std::string onnx;  // the file that chapter 1 exports its network to
};

// The options, or the exit code of a program that has nothing more to do: 0 after --help, 2 after
// one sentence on stderr.
std::variant<Options, int> parse_options(int argc, const char* const* argv);

}  // namespace dl::examples::book
