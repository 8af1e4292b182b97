// One output stream of one rank, in the front: from frames through the splitter to dlrun's own
// stream, line by line.
//
// One thread. The Sink must outlive it.
#pragma once

#include <string>
#include <string_view>

#include "launcher/output/line_splitter.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

class RankLines {
 public:
  // `shows_status`: its unfinished line is the terminal's last line.
  RankLines(Sink& sink, std::string prefix, bool shows_status);

  void take(std::string_view bytes);
  // Ends an unfinished line.
  void end();
  const Sink& sink() const { return sink_; }

 private:
  void show();

  Sink& sink_;
  bool shows_status_;
  LineSplitter splitter_;
  std::string lines_;
  bool status_is_mine_ = false;
};

}  // namespace dl::launcher
