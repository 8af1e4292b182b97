#include "launcher/output/lines/rank_lines.h"

#include <utility>

namespace dl::launcher {

RankLines::RankLines(Sink& sink, LineLook look, bool shows_status)
    : sink_(sink),
      shows_status_(shows_status),
      timestamps_(look.timestamps),
      splitter_(std::move(look.prefix),
                sink.is_terminal() ? LineSplitter::For::kTerminal : LineSplitter::For::kFile) {}

void RankLines::take(std::string_view bytes, std::chrono::system_clock::time_point time) {
  if (timestamps_) splitter_.set_stamp(timestamp(time));
  see_whether_cut();
  splitter_.feed(bytes, lines_);
  if (sink_.is_terminal() || !splitter_.has_rest()) {
    shows_rest_at_.reset();
  } else if (!shows_rest_at_ || !lines_.empty()) {  // it begins with these bytes
    shows_rest_at_ = Clock::now() + kMostHeld;
  }
  show();
}

void RankLines::end() {
  see_whether_cut();
  splitter_.finish(lines_);
  shows_rest_at_.reset();
  show();
}

void RankLines::show_rest() {
  see_whether_cut();
  splitter_.give_rest(lines_);
  shows_rest_at_.reset();
  show();
}

void RankLines::see_whether_cut() {
  if (!sink_.is_open_for(this)) splitter_.cut();
}

// Writes the finished lines, together with the status line that remains.
void RankLines::show() {
  if (!sink_.is_terminal()) {
    sink_.write_part(lines_, this);
    lines_.clear();
    return;
  }
  // Wider than any terminal: a line may have many MiB by now.
  constexpr std::size_t kMostShown = 4096;
  std::string_view rest;
  if (shows_status_) rest = splitter_.visible_rest().substr(0, kMostShown);
  std::string status;
  if (!rest.empty()) status.append(splitter_.prefix()).append(rest);
  // The status line may belong to the other stream of this rank; only its owner removes it.
  const bool speaks = !rest.empty() || status_is_mine_;
  status_is_mine_ = !rest.empty();
  sink_.write(lines_, speaks ? std::optional<std::string_view>(status) : std::nullopt);
  lines_.clear();
}

}  // namespace dl::launcher
