#include "launcher/output/lines/line_splitter.h"

#include <algorithm>

namespace dl::launcher {
namespace {

// A `\r` at the end overwrites nothing yet.
std::string_view without_trailing_returns(std::string_view text) {
  while (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// The most bytes of `text`, up to `most`, that cut no UTF-8 character in two.
std::size_t whole_characters(std::string_view text, std::size_t most) {
  constexpr std::size_t kLongestCharacter = 4;
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t cut = most;
  while (cut < text.size() && cut > 0 && most - cut < kLongestCharacter && is_inside(cut)) --cut;
  return cut == 0 || most - cut == kLongestCharacter ? most : cut;
}

// The bytes of `text` without the beginning of a UTF-8 character whose end is missing.
std::size_t complete_characters(std::string_view text) {
  constexpr std::size_t kMostMissing = 3;
  for (std::size_t back = 1; back <= std::min(kMostMissing, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) break;
    end_line(bytes.substr(0, newline), out);
    bytes.remove_prefix(newline + 1);
  }
  hold(bytes);
  give_what_is_too_long(out);
}

void LineSplitter::finish(std::string& out) {
  if (line_ != Line::kNew || !rest_.empty()) end_line("", out);
}

bool LineSplitter::has_rest() const {
  return complete_characters(rest_) > 0;
}

void LineSplitter::give_rest(std::string& out) {
  const std::size_t size = complete_characters(rest_);
  if (size > 0) give(size, out);
}

void LineSplitter::cut() {
  if (line_ == Line::kOpen) line_ = Line::kCut;
}

std::string_view LineSplitter::visible_rest() const {
  return without_trailing_returns(rest_);
}

// If a terminal shows the line, only `bytes` is searched, not what is held already.
void LineSplitter::hold(std::string_view bytes) {
  if (target_ == For::kFile) {
    rest_.append(bytes);
    return;
  }
  const std::string_view text = without_trailing_returns(bytes);
  if (!text.empty()) {
    const std::size_t overwritten = text.rfind('\r');
    if (overwritten != std::string_view::npos) {
      rest_ = text.substr(overwritten + 1);
    } else if (rest_.ends_with('\r')) {
      rest_ = text;
    } else {
      rest_.append(text);
    }
  }
  if (text.size() < bytes.size() && !rest_.ends_with('\r')) rest_.append(1, '\r');
}

void LineSplitter::begin_line(std::string& out) {
  if (line_ == Line::kOpen) return;
  out.append(stamp_).append(prefix_);
  if (line_ == Line::kCut) out.append(kContinued);
}

void LineSplitter::end_line(std::string_view last_part, std::string& out) {
  constexpr std::size_t kWorthKeeping = std::size_t{1} << 20;
  if (line_ == Line::kCut && rest_.empty() && last_part.empty()) {  // it was shown whole
    line_ = Line::kNew;
    return;
  }
  if (target_ == For::kFile && rest_.size() + last_part.size() <= longest_) {
    begin_line(out);
    out.append(rest_).append(last_part);
  } else {
    hold(last_part);
    give_what_is_too_long(out);
    begin_line(out);
    out.append(target_ == For::kFile ? std::string_view(rest_) : visible_rest());
  }
  out.append(1, '\n');
  line_ = Line::kNew;
  if (rest_.capacity() > kWorthKeeping) rest_ = {};  // gives the memory back
  rest_.clear();
}

void LineSplitter::give(std::size_t size, std::string& out) {
  begin_line(out);
  out.append(rest_, 0, size);
  rest_.erase(0, size);
  line_ = Line::kOpen;
  if (target_ == For::kFile) return;
  out.append(1, '\n');
  line_ = Line::kCut;
}

void LineSplitter::give_what_is_too_long(std::string& out) {
  while (rest_.size() > longest_) give(whole_characters(rest_, longest_), out);
}

}  // namespace dl::launcher
