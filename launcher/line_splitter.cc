#include "launcher/line_splitter.h"

namespace dl::launcher {
namespace {

// "10 %\r20 %\r" -> "20 %"; a `\r` at the end overwrites nothing yet.
std::string_view visible(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t overwritten = line.rfind('\r');
  return overwritten == std::string_view::npos ? line : line.substr(overwritten + 1);
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) break;
    end_line(bytes.substr(0, newline), out);
    bytes.remove_prefix(newline + 1);
  }
  if (bytes.empty()) return;
  if (!open_ && rest_.size() + bytes.size() > longest_) {
    out.append(prefix_).append(rest_);
    rest_ = {};  // gives the memory back
    open_ = true;
  }
  (open_ ? out : rest_).append(bytes);
}

void LineSplitter::finish(std::string& out) {
  if (open_ || !rest_.empty()) end_line("", out);
}

std::string_view LineSplitter::visible_rest() const {
  return visible(rest_);
}

void LineSplitter::end_line(std::string_view last_part, std::string& out) {
  if (open_) {
    out.append(last_part).append(1, '\n');
    open_ = false;
    return;
  }
  out.append(prefix_);
  if (target_ == For::kFile) {
    out.append(rest_).append(last_part);
  } else {
    rest_.append(last_part);
    out.append(visible(rest_));
  }
  out.append(1, '\n');
  rest_.clear();
}

}  // namespace dl::launcher
