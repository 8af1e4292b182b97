#include "launcher/pmi/pmix_server.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {
namespace {

// What Open MPI must know beside PMIx's own variables, unless the user has set it.
struct OpenMpiSetting {
  const char* name;
  std::string_view value;  // empty: the private folder
};
constexpr OpenMpiSetting kOpenMpiSettings[] = {
    // Open MPI 4 does not look for PMIx: it takes a process for a job of its own, unless mpirun or
    // srun has started it. mpirun gives its ranks the second one, too; an mpirun that a rank starts
    // would fail with "pmi".
    {"OMPI_MCA_schizo", "ompi"},
    {"OMPI_MCA_ess", "^singleton"},
    // dlrun has bound the rank.
    {"OMPI_MCA_orte_externally_bound", "1"},
    // The memory that ranks share, which a rank that is killed leaves behind: files in the private
    // folder, and none to find out whether there could be other memory.
    {"OMPI_MCA_shmem", "mmap"},
    {"OMPI_MCA_btl_vader_backing_directory", ""},
    {"OMPI_MCA_btl_sm_backing_directory", ""},
    {"OMPI_MCA_osc_sm_backing_directory", ""},
};

// The interfaces of Open MPI's TCP; only one of the two may be set.
constexpr const char* kOpenMpiOn = "OMPI_MCA_btl_tcp_if_include";
constexpr const char* kOpenMpiNotOn = "OMPI_MCA_btl_tcp_if_exclude";

}  // namespace

std::string pmix_helper() {
  return own_file().parent_path() / kPmixHelperName;
}

// Open MPI keeps the memory that ranks share in it, too.
PrivateFolder::PrivateFolder() {
  constexpr const char* kMemory = "/dev/shm";
  const bool is_usable = ::access(kMemory, W_OK | X_OK) == 0;
  name_ = ((is_usable ? kMemory : std::filesystem::temp_directory_path()) / "dlrun-pmix-XXXXXX")
              .string();
  if (::mkdtemp(name_.data()) == nullptr) throw_errno(errno, "mkdtemp " + name_);
}

void PrivateFolder::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(name_, ignored);
}

PmixServer::PmixServer(boost::asio::io_context& io, WardenClient& warden, Job job, Events events)
    : io_(io),
      warden_(warden),
      job_(std::move(job)),
      events_(std::move(events)),
      ranks_(static_cast<std::size_t>(job_.size)),
      timer_(io) {
  for (const int rank : job_.ranks) ranks_.at(static_cast<std::size_t>(rank)).is_here = true;
  start_helper();
  watch();
}

void PmixServer::start_helper() {
  LineSocketEnds ends = make_line_socket();
  helper_ = std::make_unique<LineSocket>(
      io_, std::move(ends.ours), kLongestLine,
      LineSocket::Events{.on_line = [this](std::string_view line) { take(line); },
                         .on_closed = [this](bool) { helper_ended(); }});
  Pipe alive = make_pipe();
  alive_ = std::move(alive.write);
  Helper helper;
  helper.path = pmix_helper();
  helper.argv = {kPmixHelperName,
                 job_.name,
                 std::to_string(job_.size),
                 job_.host,
                 folder_.name(),
                 std::to_string(job_.node),
                 std::to_string(job_.nodes),
                 fmt::format("{}", fmt::join(job_.ranks, ",")),
                 fmt::format("{}", fmt::join(job_.apps, ","))};
  helper.argv.insert(helper.argv.end(), job_.programs.begin(), job_.programs.end());
  helper.fds.emplace_back(std::move(ends.theirs), STDIN_FILENO);
  helper.fds.emplace_back(open_null(), STDOUT_FILENO);
  helper.fds.emplace_back(open_null(), STDERR_FILENO);
  helper.fds.emplace_back(std::move(alive.read), kPmixRanksFd);
  if (job_.nodes > 1) {
    const auto set = [&helper](env::Var var, const auto& value) {
      helper.environment.push_back(fmt::format("{}={}", env::name_of(var), value));
    };
    set(env::Var::kStore, job_.store);
    set(env::Var::kJobId, job_.store_job);
    set(env::Var::kGeneration, job_.generation);
    set(env::Var::kKeyFd, kPmixKeyFd);
    helper.fds.emplace_back(duplicate(job_.key->get()), kPmixKeyFd);
  }
  slot_ = warden_.start_helper(std::move(helper),
                               [this, exists = std::weak_ptr<bool>(exists_)](const Message& news) {
                                 if (news.kind != MessageKind::kStarted && !exists.expired())
                                   lose(how_helper_ended(news));
                               });
}

void PmixServer::when_ready(std::function<void()> start) {
  start_ = std::move(start);
  if (ready_) start_();
}

MpiServer::Part PmixServer::add(int rank) {
  Part part{.fd = duplicate(alive_.get()),
            .environment = std::move(ranks_.at(static_cast<std::size_t>(rank)).environment)};
  if (++added_ == static_cast<int>(job_.ranks.size())) alive_.reset();
  const auto set = [&part](const char* name, std::string_view value) {
    if (!env::exists(name)) part.environment.push_back(fmt::format("{}={}", name, value));
  };
  for (const OpenMpiSetting& one : kOpenMpiSettings) {
    set(one.name, one.value.empty() ? std::string_view(folder_.name()) : one.value);
  }
  // A key of MPI_INFO_ENV of Open MPI 4.
  const auto local = std::ranges::find(job_.ranks, rank) - job_.ranks.begin();
  const std::string& directory = job_.directories.at(static_cast<std::size_t>(local));
  if (!directory.empty()) set("OMPI_MCA_initial_wdir", directory);
  // A rank that polls without a pause keeps the one that it waits for from its core.
  if (job_.is_oversubscribed) set("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!job_.iface.empty() && !env::exists(kOpenMpiNotOn)) set(kOpenMpiOn, job_.iface);
  return part;
}

void PmixServer::take(std::string_view text) {
  const std::optional<PmixLine> line = parse_pmix_line(text);
  if (!line || (line->rank >= static_cast<int>(ranks_.size()))) {
    lose(fmt::format("sent the line `{}`", text));
    return;
  }
  Rank* const rank = line->rank < 0 ? nullptr : &ranks_[static_cast<std::size_t>(line->rank)];
  switch (line->kind) {
    case PmixLine::Kind::kEnvironment:
      if (rank != nullptr) rank->environment.push_back(line->text);
      return;
    case PmixLine::Kind::kReady:
      ready_ = true;
      timer_.cancel();
      if (start_) start_();
      return;
    case PmixLine::Kind::kConnected:
      if (rank != nullptr) rank->connected = true;
      watch();
      check_begin();
      break;
    case PmixLine::Kind::kEnded:
      if (rank != nullptr) rank->ended = true;
      watch();
      check_begin();
      break;
    case PmixLine::Kind::kFinalized:
      if (rank != nullptr) rank->finalized = true;
      break;
    case PmixLine::Kind::kAbort:
      events_.on_abort(line->rank, line->code);
      break;
    case PmixLine::Kind::kNote:
      events_.on_note(line->text);
      return;
    case PmixLine::Kind::kFailed:
      lose("cannot serve: " + line->text);
      return;
  }
  events_.on_line();
}

bool PmixServer::ended(int number) {
  // What the rank has told the helper before its end is in the socket already.
  while (helper_->is_open() && helper_->read()) {
  }
  // Open MPI ends a rank that has lost the helper.
  if (!helper_->is_open()) lose("has ended");
  Rank& rank = ranks_.at(static_cast<std::size_t>(number));
  rank.ended = true;
  if (!rank.finalized) helper_->send(text_of({.kind = PmixLine::Kind::kEnded, .rank = number}));
  watch();
  check_begin();
  return rank.connected && !rank.finalized;
}

// libpmix lets the others go on without a rank that has ended, unless it never came to MPI_Init.
void PmixServer::check_begin() {
  if (!job_.others_go_on) return;
  const auto gone =
      std::ranges::find_if(ranks_, [](const Rank& rank) { return rank.ended && !rank.connected; });
  if (gone == ranks_.end() || std::ranges::none_of(ranks_, &Rank::waits)) return;
  events_.on_lost(
      fmt::format("rank {} has ended before MPI_Init, and Open MPI does not begin "
                  "without it",
                  gone - ranks_.begin()));
}

std::map<int, rendezvous::Waiting> PmixServer::waits() const {
  const auto gone =
      std::ranges::find_if(ranks_, [](const Rank& rank) { return rank.ended && !rank.finalized; });
  std::map<int, rendezvous::Waiting> waits;
  if (gone == ranks_.end()) return waits;
  for (const Rank& rank : ranks_) {
    if (rank.waits()) {
      waits[number_of(rank)] = {number_of(*gone), gone->connected ? "MPI" : "MPI_Init"};
    }
  }
  return waits;
}

void PmixServer::watch() {
  timer_.expires_after(kSilence);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || lost_ || done_) return;
    if (!ready_) {
      events_.on_note(fmt::format("{} has not started{} after {} s", kPmixHelperName,
                                  job_.nodes > 1 ? " on every node" : "", kSilence.count()));
      return;
    }
    std::vector<int> waiting;
    std::vector<int> awaited;
    for (const Rank& rank : ranks_) {
      if (!rank.ended) (rank.connected ? waiting : awaited).push_back(number_of(rank));
    }
    if (waiting.empty() || awaited.empty()) return;
    // One of the nodes speaks for all.
    if (ranks_[static_cast<std::size_t>(waiting.front())].is_here) {
      events_.on_note(waits_in_mpi(waiting, awaited, kSilence));
    }
  });
}

void PmixServer::lose(const std::string& how) {
  if (done_ || std::exchange(lost_, true)) return;
  // The store ends with the job, maybe before this node knows of the end.
  const bool is_needed = std::ranges::any_of(
      ranks_, [](const Rank& rank) { return rank.is_here && !rank.ended && !rank.finalized; });
  if (!is_needed) return;
  events_.on_lost(
      fmt::format("{}, which serves the ranks as processes of Open MPI, {}", kPmixHelperName, how));
}

void PmixServer::finish(std::function<void()> done) {
  done_ = std::move(done);
  alive_.reset();
  if (!helper_->is_open()) {
    helper_ended();
    return;
  }
  helper_->close_sending();
  timer_.expires_after(kSilence);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) warden_.signal_helper(slot_, SIGKILL);  // it may be stopped
  });
}

void PmixServer::helper_ended() {
  if (!done_) return;  // the warden says how it ended
  timer_.cancel();
  folder_.remove();
  std::exchange(done_, [] {})();
}

}  // namespace dl::launcher
