#include "launcher/output/job/job_output.h"

#include <fmt/core.h>

#include <cerrno>
#include <set>
#include <utility>

#include "core/base/text/printable.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {
namespace {

std::string said_by_dlrun(const std::string& line) {
  return fmt::format("dlrun: {}\n", printable(line));
}

}  // namespace

JobOutput::JobOutput(boost::asio::io_context& io, DiskThread& disk,
                     std::function<LineLook(const StreamId&)> look,
                     std::function<void(LostStream)> on_lost)
    : io_(io),
      disk_(disk),
      on_lost_(std::move(on_lost)),
      streams_(io, disk, [this](LostStream lost) { on_broken(lost); }),
      lines_(io, streams_, std::move(look)),
      watch_(io, streams_,
             [this](const Sink* silent, const std::string& line) { say_beside(silent, line); }),
      wait_(disk) {}

void JobOutput::show_node(NodeOutput* node) {
  node_ = node;
  watch_.show_node(node);
}

void JobOutput::on_broken(LostStream lost) {
  if (!is_finishing()) {
    on_lost_(lost);
  } else if (!lost_) {
    lost_ = lost;
  }
}

void JobOutput::say(const std::string& line) {
  say_beside(nullptr, line);
}

void JobOutput::say_beside(const Sink* silent, const std::string& line) {
  const std::string text = said_by_dlrun(line);
  if (node_ != nullptr) node_->log(text);
  for (Sink* const sink : {&streams_.err(), &streams_.out()}) {
    if (sink == silent || sink->is_broken()) continue;
    sink->write(text);
    return;
  }
}

void JobOutput::log(const std::vector<std::string>& lines) {
  if (node_ == nullptr) return;
  for (const std::string& line : lines) node_->log(said_by_dlrun(line));
}

// The end.

std::uint64_t JobOutput::behind(const Sink& sink) const {
  std::uint64_t bytes = 0;
  for (const Stream stream : streams_.streams_of(sink)) {
    bytes += node_ == nullptr ? 0 : node_->behind(stream);
  }
  return bytes;
}

void JobOutput::begin_finish() {
  wait_.begin();
  watch_.begin_finish();
}

// True if every stream has ended and arrived completely.
bool JobOutput::is_shown(const Sink& sink) const {
  return behind(sink) == 0 && lines_.have_ended(sink);
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
  Sink& err = streams_.err();
  run_until([this, &err] {
    return is_shown(err) || err.is_broken() || wait_.gives_up_readers() || wait_.gives_up_disk();
  });
  for (const std::string& line : page) err.write(said_by_dlrun(line));
}

void JobOutput::finish() {
  wait_for_sinks();
  Sink& err = streams_.err();
  if (!streams_.are_one() && (err.is_broken() || !has_taken_all(err))) {
    for (const std::string& line : page_) streams_.out().write(said_by_dlrun(line));
  }
  const auto is_settled = [&] { return disk_.is_idle() || wait_.gives_up_disk(); };
  run_until(is_settled);  // a disk may refuse the last bytes of a log
  const bool disk_has_all = disk_.is_idle();
  say_what_is_lost();
  if (node_ != nullptr && !node_->broken_logs().empty()) {
    const std::set<int>& broken = node_->broken_logs();
    say(fmt::format("the logs of {} in {} are incomplete",
                    rendezvous::rank_list({broken.begin(), broken.end()}), node_->run_folder()));
  }
  if (!disk_has_all && !disk_.is_idle() && has_logs()) {
    const auto waited =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - *disk_.waits_since());
    say(fmt::format("the logs in {} are incomplete: the disk has taken nothing for {} s",
                    node_->run_folder(), waited.count()));
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
    return (has_taken_all(streams_.out()) && has_taken_all(streams_.err())) ||
           wait_.gives_up_readers() || wait_.gives_up_disk();
  });
}

// The place of the bytes that a reader has not taken.
std::string JobOutput::where_the_lost_are() const {
  if (!has_logs()) return " and are lost";
  const bool is_whole = node_->broken_logs().empty() && !wait_.gives_up_disk();
  return fmt::format("; {} has {}", node_->run_folder(),
                     is_whole ? "them" : "those that its disk has taken");
}

void JobOutput::say_what_is_lost() {
  for (Sink* const sink : streams_.sinks()) {
    if (sink->is_broken()) continue;
    const std::uint64_t bytes = sink->unwritten() + behind(*sink);
    if (bytes == 0) continue;
    if (!lost_) lost_ = LostStream{sink == &streams_.out() ? Stream::kOut : Stream::kErr, ETIME};
    say_beside(sink, fmt::format("{} bytes for {} were not read in time{}", bytes,
                                 streams_.name_of(*sink), where_the_lost_are()));
  }
}

}  // namespace dl::launcher
