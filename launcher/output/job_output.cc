#include "launcher/output/job_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/base/text/printable.h"
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

std::set<int> as_set(const std::vector<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

std::string said_by_dlrun(const std::string& line) {
  return fmt::format("dlrun: {}\n", printable(line));
}

}  // namespace

JobOutput::JobOutput(boost::asio::io_context& io, DiskThread& disk,
                     std::function<LineLook(const StreamId&)> look,
                     std::function<void(LostStream)> on_lost)
    : io_(io),
      disk_(disk),
      look_(std::move(look)),
      on_lost_(std::move(on_lost)),
      out_(io, disk_, STDOUT_FILENO, [this](int error) { on_broken({Stream::kOut, error}); }),
      own_err_(
          same_file(STDOUT_FILENO, STDERR_FILENO)
              ? nullptr
              : std::make_unique<Sink>(io, disk_, STDERR_FILENO,
                                       [this](int error) { on_broken({Stream::kErr, error}); })),
      rests_timer_(io),
      timer_(io) {
  tick();
}

void JobOutput::on_broken(LostStream lost) {
  if (!finishing_) {
    on_lost_(lost);
  } else if (!lost_) {
    lost_ = lost;
  }
}

void JobOutput::take(const Frame& frame) {
  auto found = lines_.find(frame.id);
  if (found == lines_.end()) {
    if (frame.bytes.empty()) return;  // it has written nothing
    LineLook look = frame.id.rank < 0 ? LineLook() : look_(frame.id);
    if (!look.shown) return;
    found = lines_
                .try_emplace(frame.id, sink_of(frame.id.stream), std::move(look),
                             /*shows_status=*/frame.id.rank == 0)
                .first;
  }
  if (!frame.bytes.empty()) found->second.take(frame.bytes, frame.time);
  if (frame.is_last) {
    found->second.end();
    lines_.erase(found);
  } else if (found->second.shows_rest_at() && !rests_are_watched_) {
    watch_rests();
  }
}

// Parts of lines that wait too long for their end.
void JobOutput::watch_rests() {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [id, lines] : lines_) {
    next = std::min(next, lines.shows_rest_at().value_or(next));
  }
  rests_are_watched_ = next != Clock::time_point::max();
  if (!rests_are_watched_) return;
  rests_timer_.expires_at(next);
  rests_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const Clock::time_point now = Clock::now();
    for (auto& [id, lines] : lines_) {
      if (lines.shows_rest_at().value_or(Clock::time_point::max()) <= now) lines.show_rest();
    }
    watch_rests();
  });
}

void JobOutput::say(const std::string& line) {
  say_beside(nullptr, line);
}

void JobOutput::say_beside(const Sink* silent, const std::string& line) {
  const std::string text = said_by_dlrun(line);
  if (node_ != nullptr) node_->log(text);
  for (Sink* const sink : {&err(), &out_}) {
    if (sink == silent || sink->is_broken()) continue;
    sink->write(text);
    return;
  }
}

void JobOutput::log(const std::vector<std::string>& lines) {
  if (node_ == nullptr) return;
  for (const std::string& line : lines) node_->log(said_by_dlrun(line));
}

// Ranks that stand still.

std::vector<Stream> JobOutput::streams_of(const Sink& sink) const {
  if (!own_err_) return {Stream::kOut, Stream::kErr};
  return {&sink == &out_ ? Stream::kOut : Stream::kErr};
}

std::vector<int> JobOutput::ranks_standing_still(const Sink& sink) const {
  std::set<int> ranks;
  for (const Stream stream : streams_of(sink)) {
    if (node_ != nullptr) ranks.merge(as_set(node_->ranks_standing_still(stream)));
  }
  return {ranks.begin(), ranks.end()};
}

std::uint64_t JobOutput::behind(const Sink& sink) const {
  std::uint64_t bytes = 0;
  for (const Stream stream : streams_of(sink))
    bytes += node_ == nullptr ? 0 : node_->behind(stream);
  return bytes;
}

std::string JobOutput::name_of(const Sink& sink) const {
  if (!own_err_) return "dlrun's output";
  return &sink == &out_ ? "stdout" : "stderr";
}

std::vector<std::string> JobOutput::who_stands_still() const {
  std::vector<std::string> lines;
  const Clock::time_point now = Clock::now();
  for (const Sink* sink : {&out_, static_cast<const Sink*>(own_err_.get())}) {
    if (sink == nullptr) continue;
    const std::vector<int> ranks = ranks_standing_still(*sink);
    const std::optional<Clock::time_point> since = sink->waits_since();
    // A shorter wait is normal.
    if (ranks.empty() || !since || now - *since < kTick) continue;
    lines.push_back(fmt::format(
        "{} {} still in a write: {} has not been read for {} s", rendezvous::rank_list(ranks),
        ranks.size() == 1 ? "stands" : "stand", name_of(*sink), whole_seconds(now - *since)));
  }
  if (node_ != nullptr) {
    if (std::string disk = node_->disk_sentence(); !disk.empty()) lines.push_back(std::move(disk));
  }
  return lines;
}

// Readers that take nothing.

void JobOutput::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    watch_reader(out_, out_announced_);
    if (own_err_) watch_reader(*own_err_, err_announced_);
    tick();
  });
}

// True if a rank waits for this stream, a rank's log is ahead of it, or dlrun's end needs it.
bool JobOutput::is_wanted(const Sink& sink) const {
  return finishing_ || std::ranges::any_of(streams_of(sink), [this](Stream stream) {
           return node_ != nullptr && node_->wants(stream);
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
  const std::vector<int> still = ranks_standing_still(sink);
  std::string result;
  if (finishing_) {
    result = fmt::format("all ranks have ended, and dlrun waits to write the last {} bytes",
                         sink.unwritten());
  } else if (!still.empty()) {
    result = fmt::format("{} {} still until it is read", rendezvous::rank_list(still),
                         still.size() == 1 ? "stands" : "stand");
  } else if (has_logs()) {
    result = fmt::format("the ranks go on, and what they write is in {}", node_->run_folder());
  } else {
    result = "the ranks stand still once their pipes are full";
  }
  say_beside(&sink, fmt::format("{} has {} for {} s: {}", name_of(sink),
                                sink.is_file() ? "taken nothing" : "not been read",
                                whole_seconds(now - *since), result));
}

// The end.

void JobOutput::begin_finish() {
  finishing_ = true;
  finish_began_ = Clock::now();
}

void JobOutput::hurry_until(Clock::time_point deadline) {
  deadline_ = deadline_ ? std::min(*deadline_, deadline) : deadline;
}

bool JobOutput::readers_are_given_up() const {
  return deadline_ && Clock::now() >= std::max(*deadline_, finish_began_ + kTick);
}

bool JobOutput::disk_is_given_up() const {
  const std::optional<Clock::time_point> since = disk_.waits_since();
  const bool in_a_hurry = readers_are_given_up();
  return since && Clock::now() - *since >= (in_a_hurry ? Clock::duration(kTick) : kDiskPatience);
}

// True if every stream has ended and arrived completely.
bool JobOutput::is_shown(const Sink& sink) const {
  return behind(sink) == 0 && std::ranges::none_of(lines_, [&](const auto& entry) {
           return &entry.second.sink() == &sink;
         });
}

void JobOutput::run_until(const std::function<bool()>& over) {
  constexpr std::chrono::milliseconds kLook{20};
  while (!over()) {
    if (io_.stopped()) io_.restart();
    io_.run_one_for(kLook);
  }
}

// The page is the last text on its stream. It waits for no other stream.
void JobOutput::show(const std::vector<std::string>& page) {
  io_.restart();
  page_ = page;
  run_until([this] {
    return is_shown(err()) || err().is_broken() || readers_are_given_up() || disk_is_given_up();
  });
  for (const std::string& line : page) err().write(said_by_dlrun(line));
}

void JobOutput::finish() {
  wait_for_sinks();
  if (own_err_ && (err().is_broken() || !has_taken_all(err()))) {
    for (const std::string& line : page_) out_.write(said_by_dlrun(line));
  }
  const auto is_settled = [&] { return disk_.is_idle() || disk_is_given_up(); };
  run_until(is_settled);  // a disk may refuse the last bytes of a log
  const bool disk_has_all = disk_.is_idle();
  say_what_is_lost();
  if (node_ != nullptr && !node_->broken_logs().empty()) {
    const std::set<int>& broken = node_->broken_logs();
    say(fmt::format("the logs of {} in {} are incomplete",
                    rendezvous::rank_list({broken.begin(), broken.end()}), node_->run_folder()));
  }
  if (!disk_has_all && !disk_.is_idle() && has_logs()) {
    say(fmt::format("the logs in {} are incomplete: the disk has taken nothing for {} s",
                    node_->run_folder(), whole_seconds(Clock::now() - *disk_.waits_since())));
  }
  run_until(is_settled);
  wait_for_sinks();
}

void JobOutput::say_last(const std::string& line) {
  say(line);
  wait_for_sinks();
}

bool JobOutput::has_taken_all(const Sink& sink) const {
  return sink.is_broken() || (is_shown(sink) && sink.unwritten() == 0);
}

void JobOutput::wait_for_sinks() {
  run_until([this] {
    return (has_taken_all(out_) && has_taken_all(err())) || readers_are_given_up() ||
           disk_is_given_up();
  });
}

// The place of the bytes that a reader has not taken.
std::string JobOutput::where_the_lost_are() const {
  if (!has_logs()) return " and are lost";
  const bool is_whole = node_->broken_logs().empty() && !disk_is_given_up();
  return fmt::format("; {} has {}", node_->run_folder(),
                     is_whole ? "them" : "those that its disk has taken");
}

void JobOutput::say_what_is_lost() {
  for (Sink* const sink : {&out_, own_err_.get()}) {
    if (sink == nullptr || sink->is_broken()) continue;
    const std::uint64_t bytes = sink->unwritten() + behind(*sink);
    if (bytes == 0) continue;
    if (!lost_) lost_ = LostStream{sink == &out_ ? Stream::kOut : Stream::kErr, ETIME};
    say_beside(sink, fmt::format("{} bytes for {} were not read in time{}", bytes, name_of(*sink),
                                 where_the_lost_are()));
  }
}

}  // namespace dl::launcher
