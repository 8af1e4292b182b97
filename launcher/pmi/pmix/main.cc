// dlrun-pmix: serves PMIx to the ranks of a program that is linked to Open MPI, a separate program
// so that dlrun does not link libpmix. dlrun starts one for each generation:
//
//   dlrun-pmix NAME SIZE HOST FOLDER NODE NODES RANK[,RANK...] RANKS[,RANKS...] [PROGRAM...]
//
// The ranks are those of this node; RANKS are how many ranks each program of the job has. PROGRAMs
// are their files: if the MPI of one brings a newer libpmix, it is the one that serves. If there
// are several nodes, DLRUN_STORE and kPmixKeyFd lead to the job's store, by which the helpers of
// the nodes speak to each other.
//
// Its standard input is the socket of the lines of pmix_line.h. kPmixRanksFd closes when no process
// is left that could write into FOLDER; then, and after its standard input has closed, it removes
// FOLDER and ends.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"
#include "launcher/pmi/lines/line_socket.h"
#include "launcher/pmi/lines/pmix_line.h"
#include "launcher/pmi/pmix/libpmix_of_mpi.h"
#include "launcher/pmi/pmix/nodes/store_log.h"
#include "launcher/pmi/pmix/server.h"
#include "rendezvous/module/remote_store.h"

namespace {

using namespace dl;
using launcher::PmixLine;
using Kind = PmixLine::Kind;

constexpr std::size_t kLongestLine = 65536;
constexpr std::size_t kFirstProgram = 9;  // of the line's words

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

// Starts this program again with the newest libpmix that an MPI of the job's programs brings, in
// place of its own, if that is older. A preloaded library stands for one of the same name.
void take_newest_libpmix(char** argv) {
  const char* const library_path = std::getenv("LD_LIBRARY_PATH");
  std::string newest;
  int version = pmix::major_version(PMIx_Get_version());
  for (char** program = argv + kFirstProgram; *program != nullptr; ++program) {
    const std::string file =
        pmix::libpmix_of(*program, library_path == nullptr ? "" : library_path);
    const int its = file.empty() ? 0 : pmix::major_version(pmix::version_of(file));
    if (its <= version) continue;
    newest = file;
    version = its;
  }
  if (newest.empty()) return;
  argv[kFirstProgram] = nullptr;  // it is not to choose again
  ::setenv("LD_PRELOAD", newest.c_str(), 1);
  ::execv("/proc/self/exe", argv);
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

// What dlrun says on the line.
struct Line {
  pmix::Job job;  // without its nodes
  std::uint32_t nodes = 1;
  pmix::Node here;
};

// "0,1,2"; nullopt: it is no list of numbers.
std::optional<std::vector<std::uint32_t>> read_list(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  for (const auto word : std::views::split(text, ',')) {
    const auto number = read_number<std::uint32_t>(std::string_view(word.begin(), word.end()));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<Line> read_line(std::span<char* const> words) {
  if (words.size() < kFirstProgram) return std::nullopt;
  const auto size = read_number<std::uint32_t>(words[2]);
  const auto node = read_number<std::uint32_t>(words[5]);
  const auto nodes = read_number<std::uint32_t>(words[6]);
  const auto ranks = read_list(words[7]);
  const auto apps = read_list(words[8]);
  if (!size || !node || !nodes || !ranks || !apps || *node >= *nodes) return std::nullopt;
  return Line{
      .job = {.name = words[1], .size = *size, .apps = *apps, .node = *node, .folder = words[4]},
      .nodes = *nodes,
      .here = {.host = words[3], .ranks = *ranks}};
}

rendezvous::GrpcStoreOptions store_options(std::uint32_t node) {
  return {.endpoint = rendezvous::Endpoint::parse(env::get(env::Var::kStore).value_or("")),
          .key = rendezvous::JobKey::require_from_environment(),
          .hello = {.job = env::get(env::Var::kJobId).value_or(""),
                    .generation =
                        static_cast<std::uint64_t>(env::get_int(env::Var::kGeneration).value_or(0)),
                    .from = fmt::format("{} of node {}", launcher::kPmixHelperName, node)},
          // Long silence is not a wait to speak of: ranks compute.
          .warn_after = std::chrono::hours(24 * 365)};
}

class Service {
 public:
  explicit Service(Line line)
      : line_(std::move(line)),
        dlrun_(io_, UniqueFd(STDIN_FILENO), kLongestLine,
               {.on_line = [this](std::string_view text) { take(text); },
                .on_closed = [this](bool) { io_.stop(); }}),
        libpmix_(io_, take_standard_error(), kLongestLine,
                 {.on_line =
                      [this](std::string_view text) {
                        tell({.kind = Kind::kNote, .text = std::string(text)});
                      },
                  .on_closed = [](bool) {}}),
        space_(line_.job.node, line_.nodes, PMIX_ERR_NOT_FOUND, events_of_space()) {}

  void run() {
    try {
      begin();
      io_.run();
      pollfd ranks{launcher::kPmixRanksFd, POLLIN, 0};
      while (::poll(&ranks, 1, -1) < 0) {
      }
    } catch (const std::exception& error) {
      fail(error.what());
      io_.run();
    }
  }

 private:
  void begin() {
    const auto reader = [this](const pmix::Note& note) { space_.take(note); };
    if (line_.nodes == 1) {
      log_ = std::make_unique<pmix::OwnLog>(io_, reader);
    } else {
      const rendezvous::GrpcStoreOptions store = store_options(line_.job.node);
      log_ = std::make_unique<pmix::StoreLog>(
          io_,
          [store](rendezvous::Deadline deadline) {
            return rendezvous::connect_store(store, deadline);
          },
          store.hello.generation, reader, [this](const std::string& why) { fail(why); });
    }
    space_.enter(line_.here);
  }

  pmix::NodeSpace::Events events_of_space() {
    return {.write = [this](const pmix::Note& note) { log_->write(note); },
            .on_nodes = [this](const std::vector<pmix::Node>& nodes) { start(nodes); },
            .on_connected = [this](std::uint32_t rank) { tell_rank(Kind::kConnected, rank); },
            .on_ended = [this](std::uint32_t rank) { tell_rank(Kind::kEnded, rank); },
            .on_asked =
                [this](std::uint32_t rank, pmix::NodeSpace::Answer answer) {
                  server_->data_of(rank, std::move(answer));
                }};
  }

  void start(const std::vector<pmix::Node>& nodes) {
    pmix::Job job = line_.job;
    job.nodes = nodes;
    server_ = std::make_unique<pmix::Server>(
        io_, std::move(job), space_,
        pmix::Server::Events{
            .on_finalized = [this](std::uint32_t rank) { tell_rank(Kind::kFinalized, rank); },
            .on_abort = [this](std::uint32_t rank,
                               int code) { tell_rank(Kind::kAbort, rank, code); },
            .on_note =
                [this](const std::string& text) { tell({.kind = Kind::kNote, .text = text}); }});
    for (const std::uint32_t rank : line_.here.ranks) {
      for (std::string& entry : server_->environment_of(rank)) {
        tell({Kind::kEnvironment, static_cast<int>(rank), 0, std::move(entry)});
      }
    }
    tell({.kind = Kind::kReady});
  }

  void take(std::string_view text) {
    const std::optional<PmixLine> line = launcher::parse_pmix_line(text);
    if (line && line->kind == Kind::kEnded) space_.ended(static_cast<std::uint32_t>(line->rank));
  }

  void tell(const PmixLine& line) { dlrun_.send(text_of(line)); }
  void tell_rank(Kind kind, std::uint32_t rank, int code = 0) {
    tell({kind, static_cast<int>(rank), code, {}});
  }
  void fail(const std::string& why) { tell({.kind = Kind::kFailed, .text = why}); }

  boost::asio::io_context io_;
  Line line_;
  launcher::LineSocket dlrun_;
  launcher::LineSocket libpmix_;
  pmix::NodeSpace space_;
  std::unique_ptr<pmix::Server> server_;
  std::unique_ptr<pmix::NoteLog> log_;
};

}  // namespace

int main(int argc, char** argv) {
  std::optional<Line> line = read_line({argv, static_cast<std::size_t>(argc)});
  if (!line) {
    dl::write_error(
        "dlrun-pmix: dlrun starts this program for ranks of Open MPI; it is of no use by itself\n");
    return 2;
  }
  const std::filesystem::path folder = line->job.folder;
  take_newest_libpmix(argv);
  ::signal(SIGPIPE, SIG_IGN);
  forget_other_servers();
  keep_values_in_memory();
  Service(std::move(*line)).run();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
