#include "launcher/output/job_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/output/log_folder.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

long whole_seconds(JobOutput::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

std::string said_by_dlrun(const std::string& line) {
  return fmt::format("dlrun: {}\n", line);
}

}  // namespace

JobOutput::JobOutput(boost::asio::io_context& io, std::string log_dir,
                     std::function<void(int)> on_lost)
    : io_(io),
      log_dir_(std::move(log_dir)),
      on_lost_(std::move(on_lost)),
      disk_(io),
      out_(io, disk_, STDOUT_FILENO,
           [this](int error) {
             if (finishing_) {
               lost_ = error;
             } else {
               on_lost_(error);
             }
           }),
      own_err_(same_file(STDOUT_FILENO, STDERR_FILENO)
                   ? nullptr
                   : std::make_unique<Sink>(io, disk_, STDERR_FILENO, std::function<void(int)>())),
      timer_(io) {
  tick();
}

void JobOutput::open_logs(const std::string& run, int node, const std::vector<int>& ranks,
                          std::function<void(std::string)> ready) {
  if (log_dir_.empty()) {
    ready("");
    return;
  }
  disk_.run(
      [log_dir = log_dir_, run, node, ranks] { return make_log_folder(log_dir, run, node, ranks); },
      [this, ranks, ready = std::move(ready)](LogFolder made) {
        if (made.error.empty()) {
          run_folder_ = made.run;
          folder_ = made.attempt;
          own_log_ = std::make_unique<LogFile>(disk_, std::move(made.own), [this] {
            say(fmt::format("what dlrun says is not all in {}: {}", run_folder_,
                            own_log_->error()));
          });
          for (std::size_t i = 0; i < ranks.size(); ++i) {
            const int rank = ranks[i];
            for (const Stream stream : {Stream::kOut, Stream::kErr}) {
              UniqueFd& file = stream == Stream::kOut ? made.ranks[i].out : made.ranks[i].err;
              unused_logs_[{rank, stream}] = std::make_unique<LogFile>(
                  disk_, std::move(file), [this, rank, stream] { on_log_broken(rank, stream); });
            }
          }
          if (!made.no_link.empty()) say(made.no_link);
        }
        ready(made.error);
      });
}

RankOutput& JobOutput::add(UniqueFd pipe, Stream stream, int rank, const std::string& prefix) {
  RankOutput::Options options;
  options.prefix = prefix;
  options.shows_status = rank == 0;
  const auto log = unused_logs_.find({rank, stream});
  if (log != unused_logs_.end()) options.log = std::move(log->second);
  parts_.push_back(
      {rank, stream,
       std::make_unique<RankOutput>(io_, std::move(pipe), sink_of(stream), std::move(options))});
  return *parts_.back().output;
}

void JobOutput::say(const std::string& line) {
  say_beside(nullptr, line);
}

void JobOutput::say_beside(const Sink* silent, const std::string& line) {
  const std::string text = said_by_dlrun(line);
  if (own_log_) own_log_->append(text);
  if (silent != &err()) {
    err().write(text);
  } else if (own_err_) {
    out_.write(text);
  }
}

void JobOutput::on_disk(std::function<std::string(const std::string& folder)> work,
                        std::function<void(std::string)> done) {
  if (!has_logs()) return;
  disk_.run([folder = folder_, work = std::move(work)] { return work(folder); }, std::move(done));
}

// Said of the first one at once, and of all at the end: a full disk breaks many.
void JobOutput::on_log_broken(int rank, Stream stream) {
  const bool is_first = broken_logs_.empty();
  broken_logs_.insert(rank);
  if (!is_first) return;
  for (const Part& part : parts_) {
    if (part.rank != rank || part.stream != stream) continue;
    const LogFile& log = *part.output->log();
    say(fmt::format(
        "the log of rank {} in {} is incomplete: {} (its {} has {} bytes); the job goes on", rank,
        run_folder_, log.error(), stream == Stream::kOut ? "stdout.log" : "stderr.log",
        log.written()));
  }
}

// Which ranks stand still.

std::vector<int> JobOutput::ranks_standing_still(RankOutput::HeldBy holder,
                                                 const Sink* sink) const {
  std::set<int> ranks;
  for (const Part& part : parts_) {
    if (part.rank >= 0 && part.output->held_by() == holder &&
        (sink == nullptr || &part.output->sink() == sink) && part.output->is_standing_still()) {
      ranks.insert(part.rank);
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::string JobOutput::name_of(const Sink& sink) const {
  if (!own_err_) return "dlrun's output";
  return &sink == &out_ ? "stdout" : "stderr";
}

std::vector<std::string> JobOutput::who_stands_still() const {
  std::vector<std::string> lines;
  const Clock::time_point now = Clock::now();
  const auto add = [&](const std::vector<int>& ranks, std::optional<Clock::time_point> since,
                       const std::string& why) {
    // Less is a moment in the life of a stream.
    if (ranks.empty() || !since || now - *since < kTick) return;
    lines.push_back(fmt::format("{} {} still in a write: {} for {} s", rendezvous::rank_list(ranks),
                                ranks.size() == 1 ? "stands" : "stand", why,
                                whole_seconds(now - *since)));
  };
  for (const Sink* sink : {&out_, static_cast<const Sink*>(own_err_.get())}) {
    if (sink == nullptr) continue;
    add(ranks_standing_still(RankOutput::HeldBy::kReader, sink), sink->waits_since(),
        name_of(*sink) + " has not been read");
  }
  add(ranks_standing_still(RankOutput::HeldBy::kDisk, nullptr), disk_.waits_since(),
      fmt::format("the disk of --log-dir {} has taken nothing", log_dir_));
  return lines;
}

// Silent readers and disks.

void JobOutput::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    watch_reader(out_, out_announced_);
    if (own_err_) watch_reader(*own_err_, err_announced_);
    watch_disk();
    tick();
  });
}

// Somebody waits for it: a rank, a rank's log that is ahead of it, or dlrun's end.
bool JobOutput::is_wanted(const Sink& sink) const {
  return finishing_ || std::ranges::any_of(parts_, [&](const Part& part) {
           return &part.output->sink() == &sink &&
                  (part.output->held_by() == RankOutput::HeldBy::kReader ||
                   part.output->behind() > 0);
         });
}

void JobOutput::watch_reader(Sink& sink, Announced& announced) {
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::time_point> since = sink.waits_since();
  if (sink.is_broken()) return;
  if (announced && since != announced) {
    say_beside(&sink, fmt::format("{} is read again, after {} s", name_of(sink),
                                  whole_seconds(now - *announced)));
    announced.reset();
  }
  if (announced || !since || now - *since < kSilence || !is_wanted(sink)) return;
  announced = since;
  const std::vector<int> still = ranks_standing_still(RankOutput::HeldBy::kReader, &sink);
  std::string result;
  if (finishing_) {
    result = fmt::format("all ranks have ended, and dlrun waits to write the last {} bytes",
                         sink.unwritten());
  } else if (!still.empty()) {
    result = fmt::format("{} {} still until it is read", rendezvous::rank_list(still),
                         still.size() == 1 ? "stands" : "stand");
  } else if (has_logs()) {
    result = fmt::format("the ranks go on, and what they write is in {}", run_folder_);
  } else {
    result = "the ranks stand still once their pipes are full";
  }
  say_beside(&sink, fmt::format("{} has {} for {} s: {}", name_of(sink),
                                sink.is_file() ? "taken nothing" : "not been read",
                                whole_seconds(now - *since), result));
}

void JobOutput::watch_disk() {
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::time_point> since = disk_.waits_since();
  if (log_dir_.empty()) return;
  if (disk_announced_ && since != disk_announced_) {
    say(fmt::format("the disk of --log-dir {} goes on, after {} s", log_dir_,
                    whole_seconds(now - *disk_announced_)));
    disk_announced_.reset();
  }
  if (disk_announced_ || !since || now - *since < kSilence) return;
  disk_announced_ = since;
  const std::vector<int> still = ranks_standing_still(RankOutput::HeldBy::kDisk, nullptr);
  say(fmt::format("the disk of --log-dir {} has taken nothing for {} s: {}", log_dir_,
                  whole_seconds(now - *since),
                  finishing_       ? "all ranks have ended, and dlrun waits for it"
                  : parts_.empty() ? "no rank is started before its log is there"
                  : still.empty()
                      ? "ranks stand still once some KiB of each wait for it"
                      : fmt::format("{} {} still until it goes on", rendezvous::rank_list(still),
                                    still.size() == 1 ? "stands" : "stand")));
}

// The end.

void JobOutput::drain() {
  finishing_ = true;
  drained_ = Clock::now();
  for (const Part& part : parts_) part.output->drain();
}

void JobOutput::hurry_until(Clock::time_point deadline) {
  deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
}

bool JobOutput::readers_are_given_up() const {
  return deadline_ && Clock::now() >= std::max(*deadline_, drained_ + kTick);
}

bool JobOutput::disk_is_given_up() const {
  const std::optional<Clock::time_point> since = disk_.waits_since();
  const bool in_a_hurry = readers_are_given_up();
  return since && Clock::now() - *since >= (in_a_hurry ? Clock::duration(kTick) : kDiskPatience);
}

bool JobOutput::is_shown(const Sink& sink) const {
  return std::ranges::all_of(parts_, [&](const Part& part) {
    return &part.output->sink() != &sink || part.output->is_shown();
  });
}

void JobOutput::run_until(const std::function<bool()>& over) {
  constexpr std::chrono::milliseconds kLook{20};
  while (!over()) {
    if (io_.stopped()) io_.restart();
    io_.run_one_for(kLook);
  }
}

// The page is the last thing on its stream, and waits for no other one.
void JobOutput::show(const std::vector<std::string>& page) {
  io_.restart();
  page_ = page;
  if (own_log_) {
    for (const std::string& line : page) own_log_->append(said_by_dlrun(line));
  }
  run_until([this] {
    return is_shown(err()) || err().is_broken() || readers_are_given_up() || disk_is_given_up();
  });
  for (const std::string& line : page) err().write(said_by_dlrun(line));
}

void JobOutput::finish() {
  const auto has_taken_all = [this](const Sink& sink) {
    return sink.is_broken() || (is_shown(sink) && sink.unwritten() == 0);
  };
  run_until([&] {
    return (has_taken_all(out_) && has_taken_all(err())) || readers_are_given_up() ||
           disk_is_given_up();
  });
  if (own_err_ && !has_taken_all(err())) {
    for (const std::string& line : page_) out_.write(said_by_dlrun(line));
  }
  if (!broken_logs_.empty()) {
    say(fmt::format("the logs of {} in {} are incomplete",
                    rendezvous::rank_list({broken_logs_.begin(), broken_logs_.end()}),
                    run_folder_));
  }
  say_what_is_lost();
  run_until([&] { return disk_.is_idle() || disk_is_given_up(); });
  if (!disk_.is_idle() && has_logs()) {
    say_beside(nullptr,
               fmt::format("the logs in {} are incomplete: the disk has taken nothing for {} s",
                           run_folder_, whole_seconds(Clock::now() - *disk_.waits_since())));
  }
}

void JobOutput::say_what_is_lost() {
  for (Sink* const sink : {&out_, own_err_.get()}) {
    if (sink == nullptr || sink->is_broken()) continue;
    std::uint64_t bytes = sink->unwritten();
    for (const Part& part : parts_) {
      if (&part.output->sink() == sink) bytes += part.output->behind();
    }
    if (bytes == 0) continue;
    if (sink == &out_) lost_ = ETIME;
    say_beside(sink, fmt::format(
                         "{} bytes for {} were not read in time{}", bytes, name_of(*sink),
                         has_logs() ? fmt::format("; {} has them", run_folder_) : " and are lost"));
  }
}

}  // namespace dl::launcher
