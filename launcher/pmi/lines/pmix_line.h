// PmixLine: what dlrun-pmix and dlrun tell each other, over the helper's standard input, which is a
// socket. Each is a line: "abort 2 3 TEXT".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

inline constexpr const char* kPmixHelperName = "dlrun-pmix";
// The job's key, if the job has several nodes.
inline constexpr int kPmixKeyFd = 190;
// The helper's end of a pipe, whose other end the ranks inherit: it closes when no process is left
// of them.
inline constexpr int kPmixRanksFd = 192;

struct PmixLine {
  enum class Kind : std::uint8_t {
    kEnvironment,  // text: "NAME=VALUE", for `rank`
    kReady,        // the environment of all ranks is told, and they can be started
    kConnected,    // the rank, of any node, has come to MPI_Init
    kEnded,        // the rank has ended without MPI_Finalize; of this node: dlrun says it, else the
                   // helper
    kFinalized,    // the rank has called MPI_Finalize, and no rank waits for it any more
    kAbort,        // the rank has called MPI_Abort with `code`, and waits for its end
    kNote,         // text: a sentence for the user
    kFailed,       // text: why no rank can be served
  };
  Kind kind = Kind::kNote;
  int rank = -1;  // -1: none
  int code = 0;
  std::string text = {};

  bool operator==(const PmixLine&) const = default;
};

// The line, with its end. Ends of lines within the text become blanks.
std::string text_of(const PmixLine& line);
// nullopt: `line`, given without its end, is none of these lines.
std::optional<PmixLine> parse_pmix_line(std::string_view line);

}  // namespace dl::launcher
