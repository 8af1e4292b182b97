// One stream of one rank, from bytes in pieces to whole lines that say who wrote them.
//
// A line is held back until its end is there, so that no other rank's text gets into it. A line of
// more than `longest` bytes goes out in parts that are lines of their own: each says who wrote it,
// ends with kGoesOn unless it is the last, and begins with kWentOn unless it is the first. So the
// memory for a line has a bound, and no rank's output waits for the end of another rank's line.
//
// Time is linear in the bytes, in however many pieces a line comes.
#pragma once

#include <cstddef>
#include <cstdint>
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
  static constexpr std::string_view kGoesOn = " [dlrun: the line goes on]";
  static constexpr std::string_view kWentOn = "[dlrun: the line went on] ";

  LineSplitter(std::string prefix, For target, std::size_t longest = kLongest)
      : prefix_(std::move(prefix)), target_(target), longest_(longest) {}

  // From now on each line begins with this text, before the prefix: the time of --timestamp-output.
  void set_stamp(std::string stamp) { stamp_ = std::move(stamp); }

  // Appends what may be written now to `out`.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: a last line without `\n` gets one.
  void finish(std::string& out);

  // kTerminal: the unfinished line as a terminal would show it, which is what follows the last `\r`
  // that is followed by anything.
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
