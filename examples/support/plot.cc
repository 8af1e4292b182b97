#include "examples/support/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"

namespace dl::examples {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = 560;  // names of lines stand beyond
constexpr double kTop = 60;
constexpr double kBottom = 360;

// Okabe and Ito's colours, which differ also for the colour-blind: on light and on dark.
constexpr const char* kStyle =
    "<style>\n"
    "svg{background:#fff;color:#222;font-family:system-ui,'DejaVu Sans',sans-serif}\n"
    ".l0{stroke:#0072b2}.l1{stroke:#c44e00}.l2{stroke:#00805d}.l3{stroke:#a8558b}\n"
    ".l0,.l1,.l2,.l3{fill:none;stroke-width:2.5}\n"
    ".d0{fill:#0072b2}.d1{fill:#c44e00}.d2{fill:#00805d}.d3{fill:#a8558b}\n"
    ".g{stroke:currentColor;stroke-opacity:.18}\n"
    "text{fill:currentColor;font-size:13px}.t{font-size:17px;font-weight:600}\n"
    "@media (prefers-color-scheme:dark){svg{background:#181a1f;color:#e6e6e6}\n"
    ".l0{stroke:#56b4e9}.l1{stroke:#f08c4a}.l2{stroke:#33c79b}.l3{stroke:#e29cc8}\n"
    ".d0{fill:#56b4e9}.d1{fill:#f08c4a}.d2{fill:#33c79b}.d3{fill:#e29cc8}}\n"
    "</style>\n";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// 1, 2 or 5 times a power of ten, so that about five of them are `range`.
double tick_of(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (range / (step * power) <= 6) return step * power;
  }
  return 10 * power;
}

// The heights of the lines' names: at the end of each line, and not on each other.
std::vector<double> heights_of_names(const std::vector<double>& ends) {
  constexpr double kApart = 18;
  std::vector<std::size_t> order(ends.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return ends[i]; });
  std::vector<double> heights = ends;
  for (std::size_t i = 1; i < order.size(); ++i) {
    double& height = heights[order[i]];
    height = std::max(height, heights[order[i - 1]] + kApart);
  }
  return heights;
}

// A plot whose upper edge is `above` from the picture's.
std::string panel_of(const Plot& plot, double above) {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  double top = 0;
  for (const PlotLine& line : plot.lines) {
    DL_CHECK(!line.points.empty(), kInvalidArgument, "plot: the line \"{}\" has no points",
             line.name);
    for (const auto& [x, y] : line.points) {
      low = std::min(low, x);
      high = std::max(high, x);
      top = std::max(top, y);
    }
  }
  if (low == high) high = low + 1;
  const double tick = tick_of(top > 0 ? top : 1);
  const double most = std::max(1.0, std::ceil(top / tick)) * tick;
  const auto across = [&](double x) { return kLeft + (x - low) / (high - low) * (kRight - kLeft); };
  const auto up = [&](double y) { return kBottom - y / most * (kBottom - kTop); };
  std::string svg = fmt::format(
      "<g transform=\"translate(0 {})\">\n<text class=\"t\" x=\"{}\" y=\"30\">{}</text>\n", above,
      kLeft, escaped(plot.title));
  for (double y = 0; y <= most * 1.001; y += tick) {
    svg += fmt::format(
        "<line class=\"g\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
        kLeft, up(y), kRight, up(y), kLeft - 8, up(y) + 4, y);
  }
  if (!plot.lines.empty()) {
    for (const auto& [x, y] : plot.lines.front().points) {
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
                         across(x), kBottom + 20, x);
    }
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
      "<text x=\"{}\" y=\"{}\">{}</text>\n",
      (kLeft + kRight) / 2, kBottom + 44, escaped(plot.x_label), kLeft, kTop - 12,
      escaped(plot.y_label));
  std::vector<double> ends;
  for (const PlotLine& line : plot.lines) ends.push_back(up(line.points.back().second));
  const std::vector<double> names = heights_of_names(ends);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const PlotLine& line = plot.lines[i];
    std::string path;
    std::string dots;
    for (const auto& [x, y] : line.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across(x), up(y));
      dots += fmt::format("<circle class=\"d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", i % 4,
                          across(x), up(y));
    }
    svg += fmt::format(
        "<path class=\"l{}\" d=\"{}\"/>{}\n<text class=\"d{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}"
        "</text>\n",
        i % 4, path, dots, i % 4, across(line.points.back().first) + 10, names[i] + 4,
        escaped(line.name));
  }
  return svg + "</g>\n";
}

}  // namespace

std::string svg_of(const std::vector<Plot>& plots) {
  std::string titles;
  std::string panels;
  double height = 0;
  for (const Plot& plot : plots) {
    titles += (titles.empty() ? "" : "; ") + escaped(plot.title);
    panels += panel_of(plot, height);
    height += kHeight;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n"
      "<title>{}</title>\n{}{}</svg>\n",
      kWidth, height, titles, kStyle, panels);
}

void write_plots(const std::vector<Plot>& plots, const std::string& path) {
  const std::string svg = svg_of(plots);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(svg)));
  file.commit();
}

}  // namespace dl::examples
