#include "examples/support/training/report/reporter.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/env.h"
#include "core/base/system/output.h"

namespace dl::examples {
namespace {

using Json = nlohmann::ordered_json;

// Between two pictures of the bar: faster than the eye, slower than a small step.
constexpr std::chrono::milliseconds kBarPeriod{50};

}  // namespace

std::string progress_line(const Progress& p, int width) {
  constexpr int kNarrowestBar = 10;
  const std::string head = fmt::format("epoch {}/{} ", p.epoch, p.epochs);
  const std::string tail = fmt::format(" {}/{}, loss {:.4f}, {:.0f} samples/s", p.step, p.steps,
                                       p.loss, p.samples_per_s);
  const int room = width - static_cast<int>(head.size() + tail.size()) - 2;
  std::string line = head + tail.substr(1);
  if (room >= kNarrowestBar) {
    const auto done = static_cast<int>(p.step * room / std::max<std::int64_t>(1, p.steps));
    std::string bar(static_cast<std::size_t>(done), '=');
    bar.resize(static_cast<std::size_t>(room), ' ');
    if (done > 0 && done < room) bar[static_cast<std::size_t>(done) - 1] = '>';
    line = fmt::format("{}[{}]{}", head, bar, tail);
  }
  return line.substr(0, static_cast<std::size_t>(std::max(0, width)));
}

void Reporter::note(const std::string& line) {
  if (!config_.json) print(line);
}

bool Reporter::wants_loss(std::int64_t step_of_run, bool last_of_epoch) const noexcept {
  return config_.json || last_of_epoch || step_of_run == 1 || step_of_run % config_.log_every == 0;
}

void Reporter::step(std::int64_t step_of_run, const Progress& progress) {
  if (!config_.speaks) return;
  if (config_.json) {
    Json object = {{"epoch", progress.epoch}, {"step", step_of_run}, {"loss", progress.loss}};
    if (progress.lr) object["lr"] = *progress.lr;
    print(object.dump());
  } else if (config_.progress_width > 0) {
    show_bar(progress);
  } else if (step_of_run % config_.log_every == 0) {
    print(fmt::format("epoch {}/{}, step {}/{}: loss {:.4f}, {:.0f} samples/s", progress.epoch,
                      progress.epochs, progress.step, progress.steps, progress.loss,
                      progress.samples_per_s));
  }
}

void Reporter::epoch_done(const Progress& progress) {
  bar_shown_ = {};
  if (config_.json) return;
  print(fmt::format("epoch {}/{} done: loss {:.4f}, {:.0f} samples/s", progress.epoch,
                    progress.epochs, progress.loss, progress.samples_per_s));
}

void Reporter::evaluated(const Evaluation& evaluation) {
  if (config_.json) {
    print(Json{{"epoch", evaluation.epoch},
               {"step", evaluation.step_of_run},
               {"test_accuracy", evaluation.test_accuracy},
               {"best", evaluation.best}}
              .dump());
    return;
  }
  print(fmt::format("epoch {}: test accuracy {:.2f} %{}", evaluation.epoch,
                    100 * evaluation.test_accuracy, evaluation.best ? ", the best so far" : ""));
}

void Reporter::finish(const Result& result) {
  if (config_.json) {
    print(Json{{"test_accuracy", result.test_accuracy},
               {"samples_per_s", result.samples_per_s},
               {"parameters", result.parameters},
               {"parameters_sha256", result.parameters_sha256},
               {"world_size", result.world_size}}
              .dump());
    require_written(config_.out, "standard output");
    return;
  }
  const std::string ranks =
      fmt::format("on {} rank{}", result.world_size, result.world_size == 1 ? "" : "s");
  const bool trained = result.samples_per_s > 0;
  print(trained ? fmt::format("test accuracy {:.2f} %, {:.0f} samples/s {}",
                              100 * result.test_accuracy, result.samples_per_s, ranks)
                : fmt::format("test accuracy {:.2f} % {}", 100 * result.test_accuracy, ranks));
  print(fmt::format("{} parameters, the same on all ranks: sha256 {}", result.parameters,
                    result.parameters_sha256));
  require_written(config_.out, "standard output");
}

void Reporter::print(const std::string& line) {
  if (!config_.speaks) return;
  clear_bar();
  std::fprintf(config_.out, "%s\n", line.c_str());
  std::fflush(config_.out);
}

// A picture of the bar ends with a carriage return and no newline: on a terminal the next one
// covers it, and dlrun knows it by that from a line of output.
void Reporter::show_bar(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (progress.step < progress.steps && now - bar_shown_ < kBarPeriod) return;
  bar_shown_ = now;
  const std::string line = progress_line(progress, config_.progress_width - 1);
  std::fprintf(config_.out, "%-*s\r", static_cast<int>(bar_columns_), line.c_str());
  std::fflush(config_.out);
  bar_columns_ = line.size();
}

void Reporter::clear_bar() {
  if (bar_columns_ == 0) return;
  std::fprintf(config_.out, "%*s\r", static_cast<int>(bar_columns_), "");
  std::fflush(config_.out);
  bar_columns_ = 0;
}

int terminal_width() {
  if (const auto width = env::get_int(env::Var::kProgressWidth)) {
    return static_cast<int>(std::clamp<std::int64_t>(*width, 0, 1000));
  }
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace dl::examples
