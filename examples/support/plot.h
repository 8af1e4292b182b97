// Line plots as SVG, for programs that show how something depends on a number.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dl::examples {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x and y, by x
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotLine> lines;  // at most four
};

// A picture that follows the reader's preference for light or dark, of plots one below another. The
// y axes begin at 0; an x axis has a tick at each x of the plot's first line. Throws
// kInvalidArgument if a line has no points.
std::string svg_of(const std::vector<Plot>& plots);

// Writes svg_of(plots) into a file. Throws kIo with the path.
void write_plots(const std::vector<Plot>& plots, const std::string& path);

}  // namespace dl::examples
