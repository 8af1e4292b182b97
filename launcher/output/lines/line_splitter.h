// LineSplitter: turns the bytes of one stream of one rank into whole lines that name their rank.
//
// It holds back a line until its end is there, so that no other rank's text gets into the line. The
// beginning of a line goes out without the end if it has more than `longest` bytes, so that the
// memory for a line has a bound, and at a call of give_rest(). In a file the line then stays open,
// and what follows continues it. If other text ends it, cut() has to be called: the rest of the
// line is then a line of its own, which begins with kContinued. On a terminal each part is such a
// line.
//
// The time is linear in the bytes, for any number of pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dl::launcher {

class LineSplitter {
 public:
  enum class For : std::uint8_t {
    kFile,      // every byte unchanged
    kTerminal,  // of text overwritten after `\r`, only what would stay visible
  };
  static constexpr std::size_t kLongest = std::size_t{64} << 20;
  static constexpr std::string_view kContinued = "... ";

  LineSplitter(std::string prefix, For target, std::size_t longest = kLongest)
      : prefix_(std::move(prefix)), target_(target), longest_(longest) {}

  // From now on each line begins with this text, before the prefix: for --timestamp-output.
  void set_stamp(std::string stamp) { stamp_ = std::move(stamp); }

  // Appends to `out` what may be written now.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: a last line without `\n` gets one.
  void finish(std::string& out);

  // kFile: true if give_rest() would give something.
  bool has_rest() const;
  // kFile: appends what is there of the unfinished line, up to the last whole character.
  void give_rest(std::string& out);
  // True if the last text that was given is a line without its end.
  bool is_open() const { return line_ == Line::kOpen; }
  // To be called when the open line was ended by other text.
  void cut();

  // kTerminal: the unfinished line as a terminal would show it: the text after the last `\r` that
  // text follows.
  std::string_view visible_rest() const;
  const std::string& prefix() const { return prefix_; }

 private:
  // What was given of the unfinished line.
  enum class Line : std::uint8_t {
    kNew,   // nothing
    kOpen,  // its beginning
    kCut,   // its beginning, as a line of its own
  };

  void hold(std::string_view bytes);
  void begin_line(std::string& out);
  void end_line(std::string_view last_part, std::string& out);
  void give(std::size_t size, std::string& out);
  void give_what_is_too_long(std::string& out);

  std::string stamp_;
  std::string prefix_;
  For target_;
  std::size_t longest_;
  std::string rest_;  // of the unfinished line; kTerminal: without what was overwritten
  Line line_ = Line::kNew;
};

}  // namespace dl::launcher
