#include "examples/support/training/report/reporter.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/env.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"

namespace dl::examples {
namespace {

using Json = nlohmann::ordered_json;

// Between two pictures of the bar: faster than the eye, slower than a small step.
constexpr std::chrono::milliseconds kBarPeriod{50};

std::string texts_of(const Scores& scores) {
  std::string texts;
  for (const Score& score : scores) texts += (texts.empty() ? "" : ", ") + score.text;
  return texts;
}

// Also for a text that is not UTF-8.
std::string dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string progress_line(const Progress& p, const std::string& unit, int width) {
  constexpr int kNarrowestBar = 10;
  const std::string head = fmt::format("epoch {}/{} ", p.epoch, p.epochs);
  const std::string tail =
      fmt::format(" {}/{}, loss {:.4f}, {:.0f} {}/s", p.step, p.steps, p.loss, p.per_s, unit);
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
    print(dump(object));
  } else if (config_.progress_width > 0) {
    show_bar(progress);
  } else if (step_of_run % config_.log_every == 0) {
    print(fmt::format("epoch {}/{}, step {}/{}: loss {:.4f}, {:.0f} {}/s", progress.epoch,
                      progress.epochs, progress.step, progress.steps, progress.loss, progress.per_s,
                      config_.unit));
  }
}

void Reporter::epoch_done(const Progress& progress) {
  bar_shown_ = {};
  if (config_.json) return;
  print(fmt::format("epoch {}/{} done: loss {:.4f}, {:.0f} {}/s", progress.epoch, progress.epochs,
                    progress.loss, progress.per_s, config_.unit));
}

void Reporter::evaluated(const Evaluation& evaluation) {
  if (config_.json) {
    Json object = {{"epoch", evaluation.epoch}, {"step", evaluation.step_of_run}};
    for (const Score& score : evaluation.scores) object[score.name] = score.value;
    object["best"] = evaluation.best;
    print(dump(object));
    return;
  }
  print(fmt::format("epoch {}{}: {}{}", evaluation.epoch,
                    evaluation.within_epoch ? fmt::format(", step {}", evaluation.step_of_run) : "",
                    texts_of(evaluation.scores), evaluation.best ? ", the best so far" : ""));
}

void Reporter::generated(const std::string& prompt, const std::string& text) {
  if (config_.json) {
    print(dump(Json{{"prompt", prompt}, {"text", text}}));
  } else {
    print("\n" + printable(prompt + text) + "\n");
  }
}

void Reporter::finish(const Result& result) {
  if (config_.json) {
    Json object;
    for (const Score& score : result.scores) object[score.name] = score.value;
    object[config_.unit + "_per_s"] = result.per_s;
    object["parameters"] = result.parameters;
    object["parameters_sha256"] = result.parameters_sha256;
    object["world_size"] = result.world_size;
    print(dump(object));
    require_written(config_.out, "standard output");
    return;
  }
  const std::string ranks =
      fmt::format("on {} rank{}", result.world_size, result.world_size == 1 ? "" : "s");
  std::string line = texts_of(result.scores);
  if (result.per_s > 0) {
    line += fmt::format("{}{:.0f} {}/s", line.empty() ? "" : ", ", result.per_s, config_.unit);
  }
  if (!line.empty()) print(line + " " + ranks);
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
  const std::string line = progress_line(progress, config_.unit, config_.progress_width - 1);
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
