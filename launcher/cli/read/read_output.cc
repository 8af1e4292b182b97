// Readers of the options for output and logs.
#include <fcntl.h>

#include <algorithm>

#include "core/base/error.h"
#include "launcher/cli/line_prefix.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

constexpr int kMostLocalRank = 999'999;
constexpr int kMostFd = 1 << 20;

std::optional<Streams> streams_of_digit(std::string_view digit) {
  if (digit.size() != 1 || digit.front() < '0' || digit.front() > '3') return std::nullopt;
  const int bits = digit.front() - '0';
  return Streams{.out = (bits & 1) != 0, .err = (bits & 2) != 0};
}

// "3", or "0:3,1:1".
StreamChoice choice_of(const Typed& typed) {
  if (const std::optional<Streams> all = streams_of_digit(typed.value))
    return {.all = *all, .by_local_rank = {}};
  StreamChoice choice;
  for (const std::string& part : split(typed.value, ',')) {
    const std::size_t colon = part.find(':');
    const std::optional<Streams> streams =
        colon == std::string::npos ? std::nullopt : streams_of_digit(part.substr(colon + 1));
    DL_CHECK(streams.has_value(), kInvalidArgument,
             "{} is `{}`, wanted 0 (neither), 1 (stdout), 2 (stderr) or 3 (both), or a list of "
             "LOCAL_RANK:NUMBER as in 0:3,1:1",
             typed.name(), typed.value);
    const int rank = whole_number(fmt::format("{}: local rank", typed.name()),
                                  part.substr(0, colon), 0, kMostLocalRank);
    choice.by_local_rank[rank] = *streams;
  }
  return choice;
}

}  // namespace

void log_dir(Options& options, const Typed& typed) {
  options.output.log_dir =
      typed.value == "/dev/null" ? "" : typed.value;  // as with torchrun: no logs
}

// Open MPI's DIR:nocopy,nojobid.
void output_filename(Options& options, const Typed& typed) {
  options.output.log_dir = typed.value;
  const std::size_t colon = typed.value.rfind(':');
  if (colon == std::string::npos) return;
  const std::vector<std::string> words =
      split(std::string_view(typed.value).substr(colon + 1), ',');
  for (const std::string& word : words) {
    DL_CHECK(word == "nocopy" || word == "nojobid", kInvalidArgument,
             "{} is `{}`, wanted DIR or DIR:nocopy", typed.name(), typed.value);
    if (word == "nocopy") options.output.redirects.all = {.out = true, .err = true};
  }
  options.output.log_dir.resize(colon);
  DL_CHECK(!options.output.log_dir.empty(), kInvalidArgument,
           "{} is `{}`, wanted DIR or DIR:nocopy", typed.name(), typed.value);
}

void redirects(Options& options, const Typed& typed) {
  options.output.redirects = choice_of(typed);
}

void tee(Options& options, const Typed& typed) {
  options.output.tee = choice_of(typed);
}

void local_ranks_filter(Options& options, const Typed& typed) {
  options.output.local_ranks_filter.clear();
  for (const std::string& word : split(typed.value, ',')) {
    options.output.local_ranks_filter.push_back(whole_number(
        fmt::format("{}: local rank", typed.name()), trimmed(word), 0, kMostLocalRank));
  }
}

void line_prefix(Options& options, const Typed& typed) {
  DL_CHECK(typed.value.find('\n') == std::string::npos, kInvalidArgument,
           "{} has a line's end in it; the prefix stands before each line", typed.name());
  options.output.line_prefix = typed.value;
}

void report_fd(Options& options, const Typed& typed) {
  options.output.report_fd = whole_number(typed.name(), typed.value, 0, kMostFd);
  DL_CHECK(::fcntl(options.output.report_fd, F_GETFD) >= 0, kInvalidArgument,
           "{} is {}, which is no open descriptor of dlrun's", typed.name(),
           options.output.report_fd);
}

}  // namespace dl::launcher::read
