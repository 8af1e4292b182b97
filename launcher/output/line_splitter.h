// LineSplitter: turns the bytes of one stream of one rank into whole lines that name their rank.
//
// It holds back a line until its end is there, so that no other rank's text gets into the line. A
// line of more than `longest` bytes goes out in parts. Each part is a line with the rank's name; it
// ends with kGoesOn unless it is the last part, and begins with kWentOn unless it is the first. So
// the memory for a line has a bound, and no rank's output waits for the end of another rank's line.
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
  static constexpr std::string_view kGoesOn = " [dlrun: the line goes on]";
  static constexpr std::string_view kWentOn = "[dlrun: the line went on] ";

  LineSplitter(std::string prefix, For target, std::size_t longest = kLongest)
      : prefix_(std::move(prefix)), target_(target), longest_(longest) {}

  // From now on each line begins with this text, before the prefix: for --timestamp-output.
  void set_stamp(std::string stamp) { stamp_ = std::move(stamp); }

  // Appends to `out` what may be written now.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: a last line without `\n` gets one.
  void finish(std::string& out);

  // kTerminal: the unfinished line as a terminal would show it: the text after the last `\r` that
  // text follows.
  std::string_view visible_rest() const;
  const std::string& prefix() const { return prefix_; }

 private:
  void hold(std::string_view bytes);
  void begin_line(std::string& out);
  void end_line(std::string_view last_part, std::string& out);
  void give_part(std::string& out);

  std::string stamp_;
  std::string prefix_;
  For target_;
  std::size_t longest_;
  std::string rest_;  // of the unfinished line; kTerminal: without what was overwritten
  bool went_on_ = false;
};

}  // namespace dl::launcher
