// dlrun-pmix: serves PMIx to the ranks of a program that is linked to Open MPI, a separate program
// so that dlrun does not link libpmix. dlrun starts one for each generation:
//
//   dlrun-pmix NAME SIZE HOST FOLDER
//
// Its standard input is the socket of the lines of pmix_line.h. kRanksFd closes when no process is
// left that could write into FOLDER; then, and after its standard input has closed, it removes
// FOLDER and ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"
#include "launcher/pmi/lines/line_socket.h"
#include "launcher/pmi/lines/pmix_line.h"
#include "launcher/pmi/pmix/server.h"

namespace {

using namespace dl;
using launcher::PmixLine;
using Kind = PmixLine::Kind;

constexpr std::size_t kLongestLine = 65536;

// If mpirun or srun has started dlrun, their variables would become settings of this server.
void forget_other_servers() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("PMIX_") && !text.starts_with("PMIX_MCA_")) {
      names.emplace_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

// The job's values go to each rank by a message, not by files of shared memory: they are few on one
// node, and libpmix complains of files when a rank is killed while it starts.
void keep_values_in_memory() {
  ::setenv("PMIX_MCA_gds", "hash", /*overwrite=*/0);
}

// libpmix writes its complaints to the standard error. They become notes, which dlrun does not show
// when it ends the ranks: libpmix complains of each that ends while it connects.
UniqueFd take_standard_error() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

void serve(pmix::Job job) {
  boost::asio::io_context io;
  launcher::LineSocket dlrun(
      io, UniqueFd(STDIN_FILENO), kLongestLine,
      {.on_line = [](std::string_view) {}, .on_closed = [&io](bool) { io.stop(); }});
  const auto tell = [&dlrun](const PmixLine& line) { dlrun.send(text_of(line)); };
  const auto tell_rank = [&](Kind kind, std::uint32_t rank, int code = 0) {
    tell({kind, static_cast<int>(rank), code, {}});
  };
  const launcher::LineSocket libpmix(
      io, take_standard_error(), kLongestLine,
      {.on_line =
           [&](std::string_view line) { tell({.kind = Kind::kNote, .text = std::string(line)}); },
       .on_closed = [](bool) {}});
  try {
    const std::uint32_t size = job.size;
    pmix::Server server(
        io, std::move(job),
        {.on_connected = [&](std::uint32_t rank) { tell_rank(Kind::kConnected, rank); },
         .on_finalized = [&](std::uint32_t rank) { tell_rank(Kind::kFinalized, rank); },
         .on_abort = [&](std::uint32_t rank, int code) { tell_rank(Kind::kAbort, rank, code); },
         .on_note = [&](const std::string& text) { tell({.kind = Kind::kNote, .text = text}); }});
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      for (std::string& entry : server.environment_of(rank)) {
        tell({Kind::kEnvironment, static_cast<int>(rank), 0, std::move(entry)});
      }
    }
    tell({.kind = Kind::kReady});
    io.run();
    pollfd ranks{launcher::kPmixRanksFd, POLLIN, 0};
    while (::poll(&ranks, 1, -1) < 0) {
    }
  } catch (const std::exception& error) {
    tell({.kind = Kind::kFailed, .text = error.what()});
    io.run();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto size = argc == 5 ? read_number<std::uint32_t>(argv[2]) : std::nullopt;
  if (!size || *size == 0) {
    dl::write_error(
        "dlrun-pmix: dlrun starts this program for ranks of Open MPI; it is of no use by itself\n");
    return 2;
  }
  const std::string folder = argv[4];
  ::signal(SIGPIPE, SIG_IGN);
  forget_other_servers();
  keep_values_in_memory();
  serve({.name = argv[1], .size = *size, .host = argv[3], .folder = folder});
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
