#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "launcher/bind/drawing.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

constexpr int kMargin = 12;
constexpr int kLine = 18;  // between two lines of text
constexpr int kCore = 22;  // a core's square, with its gap
constexpr int kCoresInRow = 16;
constexpr int kDeviceHeight = 40;
constexpr std::size_t kTitleColumns = 60;
constexpr int kWidth = kCoresInRow * kCore + 4 * kMargin;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return result;
}

// Breaks `text` at spaces, into lines of at most `columns` bytes unless a word is longer.
std::vector<std::string> lines_of(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= columns) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

class Drawing {
 public:
  void box(int x, int y, int width, int height, std::string_view fill) {
    fmt::format_to(std::back_inserter(body_),
                   "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" "
                   "stroke=\"#667\"/>\n",
                   x, y, width, height, fill);
  }
  void text(int x, int y, std::string_view what) {
    fmt::format_to(std::back_inserter(body_), "<text x=\"{}\" y=\"{}\">{}</text>\n", x, y,
                   escaped(what));
  }
  std::string svg(int width, int height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" "
        "height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  std::string body_;
};

// Draws the NUMA node at (x, y) and returns its height.
int draw_node(Drawing& drawing, const HostMap& map, const NumaNode* node, int x, int y) {
  std::vector<const Core*> cores;
  for (const Core& core : map.topology.cores) {
    if (node == nullptr || core.numa_node == node->number) cores.push_back(&core);
  }
  std::vector<const Device*> devices;
  for (const Device& device : map.devices) {
    if (node != nullptr && device.numa_node == node->number) devices.push_back(&device);
  }
  const int rows = (static_cast<int>(cores.size()) + kCoresInRow - 1) / kCoresInRow;
  const int height = kLine + kMargin + rows * kCore +
                     static_cast<int>(devices.size()) * (kDeviceHeight + kMargin / 2) + kMargin;
  drawing.box(x, y, kWidth - 2 * kMargin, height, "#eef3fa");
  if (node != nullptr) {
    drawing.text(x + kMargin, y + kLine,
                 fmt::format("NUMA node {}, {}", node->number, amount(node->bytes)));
  }
  int at = y + kLine + kMargin;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    const int column = static_cast<int>(i) % kCoresInRow;
    const int row = static_cast<int>(i) / kCoresInRow;
    drawing.box(x + kMargin + column * kCore, at + row * kCore, kCore - 4, kCore - 4, "#bcd4ee");
    drawing.text(x + kMargin + column * kCore + 2, at + row * kCore + 13,
                 fmt::format("{}", cores[i]->cpus.front()));
  }
  at += rows * kCore;
  for (const Device* const device : devices) {
    const bool is_gpu = device->kind == DeviceKind::kGpu;
    drawing.box(x + kMargin, at, kWidth - 4 * kMargin, kDeviceHeight,
                is_gpu ? "#c9e7c1" : "#f6e3b5");
    drawing.text(x + 2 * kMargin, at + 16, device->name + "  " + device->pci);
    drawing.text(x + 2 * kMargin, at + 32, device->model);
    at += kDeviceHeight + kMargin / 2;
  }
  return height;
}

// Draws the host at `y` and returns the place of the next one.
int draw_host(Drawing& drawing, const HostMap& map, int y) {
  for (const std::string& line :
       lines_of(map.host + ": a square is a core with its first CPU", kTitleColumns)) {
    y += kLine;
    drawing.text(kMargin, y, line);
  }
  y += kMargin;
  const std::vector<NumaNode>& nodes = map.topology.numa_nodes;
  for (const int socket : sockets_of(map.topology)) {
    drawing.text(kMargin, y + kLine,
                 fmt::format("socket {}  {}", socket, name_of_socket(map.topology, socket)));
    y += kLine + kMargin / 2;
    for (const NumaNode& node : nodes) {
      if (node.socket == socket) y += draw_node(drawing, map, &node, kMargin, y) + kMargin;
    }
  }
  if (nodes.empty()) y += draw_node(drawing, map, nullptr, kMargin, y) + kMargin;
  // Devices that belong to no NUMA node.
  for (const Device& device : map.devices) {
    const bool is_drawn = std::ranges::any_of(
        nodes, [&](const NumaNode& node) { return node.number == device.numa_node; });
    if (is_drawn) continue;
    drawing.text(kMargin, y + kLine, device.name + "  " + device.pci + "  " + device.model);
    y += kLine;
  }
  return y + kMargin;
}

}  // namespace

std::string picture(const std::vector<HostMap>& maps) {
  Drawing drawing;
  int y = 0;
  for (const HostMap& map : maps) y = draw_host(drawing, map, y);
  return drawing.svg(kWidth, y);
}

}  // namespace dl::launcher::topo
