// What a run of train_cnn, train_image or train_gpt with --json said: an object a step, one an
// evaluation, one a text that the model wrote, and one at the end.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dl::dist {

struct Report {
  std::vector<nlohmann::json> steps;
  std::vector<nlohmann::json> evaluations;
  std::vector<nlohmann::json> texts;
  nlohmann::json end;

  std::vector<double> losses() const {
    std::vector<double> losses;
    for (const nlohmann::json& step : steps) losses.push_back(step["loss"]);
    return losses;
  }
};

inline Report parse_report(const std::string& text) {
  Report report;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t brace = line.find('{');  // dlrun says in front who wrote it
    if (brace == std::string::npos) continue;
    nlohmann::json object = nlohmann::json::parse(line.substr(brace));
    if (object.contains("loss")) {
      report.steps.push_back(std::move(object));
    } else if (object.contains("best")) {
      report.evaluations.push_back(std::move(object));
    } else if (object.contains("prompt")) {
      report.texts.push_back(std::move(object));
    } else {
      report.end = std::move(object);
    }
  }
  return report;
}

inline void expect_near_relative(const std::vector<double>& got, const std::vector<double>& want,
                                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - want[i]), tolerance * std::abs(want[i]))
        << "step " << i + 1 << ": " << got[i] << ", wanted " << want[i];
  }
}

}  // namespace dl::dist
