#include "launcher/output/rank_lines.h"

#include <optional>
#include <utility>

#include "launcher/output/timestamp.h"

namespace dl::launcher {

RankLines::RankLines(Sink& sink, LineLook look, bool shows_status)
    : sink_(sink),
      shows_status_(shows_status),
      timestamps_(look.timestamps),
      splitter_(std::move(look.prefix),
                sink.is_terminal() ? LineSplitter::For::kTerminal : LineSplitter::For::kFile) {}

void RankLines::take(std::string_view bytes, std::chrono::system_clock::time_point time) {
  if (timestamps_) splitter_.set_stamp(timestamp(time));
  splitter_.feed(bytes, lines_);
  show();
}

void RankLines::end() {
  splitter_.finish(lines_);
  show();
}

// Passes on the lines that are ready, and with them, in one go, the status that they leave.
void RankLines::show() {
  // More than any terminal is wide; a line may be many MiB by now.
  constexpr std::size_t kMostShown = 4096;
  std::string_view rest;
  if (shows_status_ && sink_.is_terminal()) rest = splitter_.visible_rest().substr(0, kMostShown);
  std::string status;
  if (!rest.empty()) status.append(splitter_.prefix()).append(rest);
  // The other stream of this rank may own the status now; only its owner takes it away.
  const bool speaks = !rest.empty() || status_is_mine_;
  status_is_mine_ = !rest.empty();
  sink_.write(lines_, speaks ? std::optional<std::string_view>(status) : std::nullopt);
  lines_.clear();
}

}  // namespace dl::launcher
