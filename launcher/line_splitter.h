// One stream of one rank, from bytes in pieces to whole lines that say who wrote them.
//
// A line is held back until its end is there, so that it is never torn, whatever its length. Only
// beyond `longest` bytes does a line go out in pieces; is_open() then tells the caller to let
// nobody else write before its end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dl::launcher {

class LineSplitter {
 public:
  enum class For : std::uint8_t {
    kFile,      // every byte as it came
    kTerminal,  // of text that was overwritten by `\r`, only what would be left to see
  };
  static constexpr std::size_t kLongest = std::size_t{64} << 20;

  LineSplitter(std::string prefix, For target, std::size_t longest = kLongest)
      : prefix_(std::move(prefix)), target_(target), longest_(longest) {}

  // Appends what may be written now to `out`.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: a last line without `\n` gets one.
  void finish(std::string& out);

  // A line's beginning has gone out, and its end has not.
  bool is_open() const { return open_; }
  // The unfinished line as a terminal would show it: what follows the last `\r` that is followed
  // by anything.
  std::string_view visible_rest() const;
  const std::string& prefix() const { return prefix_; }

 private:
  void end_line(std::string_view last_part, std::string& out);

  std::string prefix_;
  For target_;
  std::size_t longest_;
  std::string rest_;
  bool open_ = false;
};

}  // namespace dl::launcher
