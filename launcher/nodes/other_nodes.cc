#include "launcher/nodes/other_nodes.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/process/process_stat.h"
#include "launcher/nodes/listener.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {

std::string with_node(int number, const std::string& host, const std::string& text) {
  return fmt::format("{} (host {}): {}", number < 0 ? "a node" : fmt::format("node {}", number),
                     host, text);
}

OtherNodes::OtherNodes(boost::asio::io_context& io, WardenClient& warden, NodeOutput& output,
                       const UniqueFd& key, const NodePlan& plan,
                       std::chrono::milliseconds join_timeout, UniqueFd listener,
                       OtherNodesEvents events)
    : plan_(plan),
      node_rank_(plan.node_rank),
      io_(io),
      warden_(warden),
      output_(output),
      key_(key),
      join_timeout_(
          std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(join_timeout))),
      events_(std::move(events)),
      link_(std::make_unique<NodeLink>(io, events_of_link())),
      farewell_(io) {
  if (plan_.listens != Listens::kNo && !listener) {
    listener = listen_everywhere(plan_.job, plan_.host, plan_.listens).fd;
  }
  listens_ = static_cast<bool>(listener);
  // The endpoint is an address of the node that listens: node 0.
  if (node_rank_ < 0 && listens_) node_rank_ = 0;
  start(std::move(listener));
}

NodeEvents OtherNodes::events_of_link() {
  return {.on_generation = [this](Meeting meeting) { events_.on_meeting(std::move(meeting)); },
          .on_failed = [this](JobFailure failure) { on_failed(std::move(failure)); },
          .on_all_done =
              [this] {
                takes_part_ = false;
                events_.on_all_done();
              },
          .on_question = [this](rendezvous::Question question) { events_.on_question(question); },
          .on_preempt = [this](const std::string& why) { events_.on_preempt(why); },
          .on_checkpoint = [this](std::uint64_t call) { events_.on_checkpoint(call); },
          .on_error = [this](const std::string& kind,
                             const std::string& text) { on_error(kind, text); },
          .on_line = [this](const std::string& line) { events_.on_sentence(line); },
          .on_helper = [this](HelperWatch::News news) { on_helper_watch(news); }};
}

void OtherNodes::start(UniqueFd listener) {
  RendezvousStart helper{
      .arguments = {"join", "--endpoint", plan_.job.rdzv_endpoint, "--job", plan_.job.name,
                    "--timeout", std::to_string(join_timeout_.count())},
      .in = link_->take_stdin(),
      .out = link_->take_stdout(),
      .listener = {}};
  for (const std::string& endpoint : plan_.job.other_endpoints) {
    helper.arguments.insert(helper.arguments.end(), {"--endpoint", endpoint});
  }
  if (listener) {
    helper.arguments.insert(helper.arguments.end(),
                            {"--listen-fd", std::to_string(kRendezvousListenerFd)});
    if (node_rank_ == 0 && plan_.job.shares_master_port()) helper.arguments.push_back("--moves");
    helper.listener = std::move(listener);
  }
  helper_ = start_rendezvous(warden_, output_, key_, std::move(helper),
                             [this](const Message& news) { on_helper_news(news); });
}

// With restarts the other nodes wait until this node comes back: for them it is a dlrun that has
// died and that a person starts anew. It will not come, so it joins once more to say so.
void OtherNodes::leave_by_another_helper(const std::string& reason) {
  const auto ignores = [](const auto&...) {};
  dead_link_ =
      std::exchange(link_, std::make_unique<NodeLink>(io_, NodeEvents{.on_generation = ignores,
                                                                      .on_failed = ignores,
                                                                      .on_all_done = ignores,
                                                                      .on_question = ignores,
                                                                      .on_preempt = ignores,
                                                                      .on_checkpoint = ignores,
                                                                      .on_error = ignores,
                                                                      .on_line = ignores,
                                                                      .on_helper = ignores}));
  helper_runs_ = true;
  start({});
  link_->join(plan_, node_rank_, /*master_port=*/0);
  link_->leave(reason, 1);
}

void OtherNodes::join(int master_port) {
  if (!lost_.empty()) {
    events_.on_lost(lost_code_, lost_);
    return;
  }
  takes_part_ = true;
  is_to_join_again_ = false;
  link_->join(plan_, node_rank_, master_port);
}

void OtherNodes::ended(const rendezvous::RankEnd& end, int local_rank) {
  if (takes_part_) link_->ended(end, local_rank);
}

void OtherNodes::waits(int rank, const rendezvous::Waiting& waiting) {
  if (takes_part_) link_->waits(rank, waiting);
}

void OtherNodes::goes_on(int rank) {
  if (takes_part_) link_->goes_on(rank);
}

void OtherNodes::preempt(const std::string& why) {
  if (takes_part_) link_->preempt(why);
}

void OtherNodes::called(std::uint64_t calls) {
  if (takes_part_) link_->called(calls);
}

void OtherNodes::leave(const std::string& reason, int exit_code) {
  const bool is_between = std::exchange(is_to_join_again_, false);
  if (std::exchange(takes_part_, false) || is_between) link_->leave(reason, exit_code);
}

void OtherNodes::close() {
  takes_part_ = false;
  if (std::exchange(closing_, true)) return;
  // A helper that still connects would give up. Once it has said that this node leaves, it ends.
  if (!dead_link_) link_->close();
  if (!helper_runs_) {
    say_closed();
    return;
  }
  farewell_.expires_after(kFarewell);
  farewell_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (read_stat(fmt::format("/proc/{}", helper_pid_)).state == 'T') {
      events_.on_sentence(helper_name() + " is stopped; dlrun ends without it");
    }
    say_closed();
  });
}

void OtherNodes::kill() {
  if (helper_runs_) warden_.signal_helper(helper_, SIGKILL);
}

void OtherNodes::on_failed(JobFailure failure) {
  takes_part_ = false;
  if (failure.node_lost && !plan_.awaits_lost_nodes) failure.restart = {};
  is_to_join_again_ = failure.restart.again;
  events_.on_failed(std::move(failure));
}

void OtherNodes::on_error(const std::string& kind, const std::string& text) {
  const bool late = kind == name_of(ErrorKind::kTimeout);
  lose(late ? kExitTimeout : 1,
       kind == "refused" ? "this node is not part of the job: " + text : text);
}

void OtherNodes::on_helper_news(const Message& news) {
  if (news.kind == MessageKind::kStarted) {
    helper_pid_ = news.number;
    return;
  }
  helper_runs_ = false;
  link_->read_rest();
  if (closing_) {
    say_closed();
  } else {
    const std::string how =
        helper_stood_still_
            ? fmt::format(
                  "has not answered for {} s, so dlrun has killed it: it was stopped or hung",
                  HelperWatch::kLostAfter.count())
            : how_helper_ended(news);
    const std::string why =
        with_node(node_rank_, plan_.host,
                  fmt::format("{}, which the ranks meet through, {}", kRendezvousName, how));
    const bool is_first = !dead_link_ && !listens_;
    if (takes_part_ && is_first && plan_.job.end.max_restarts > 0) {
      leave_by_another_helper(why);
    }
    lose(1, why);
  }
}

void OtherNodes::on_helper_watch(HelperWatch::News news) {
  if (closing_ || !helper_runs_) return;
  switch (news) {
    case HelperWatch::News::kNone:
      return;
    case HelperWatch::News::kSilent:
      events_.on_sentence(fmt::format(
          "{}, which the ranks meet through, has not answered for {} s: it is stopped or hangs; "
          "after {} s its ranks are ended",
          helper_name(), HelperWatch::kNamedAfter.count(), HelperWatch::kLostAfter.count()));
      return;
    case HelperWatch::News::kGoesOn:
      events_.on_sentence(helper_name() + " answers again");
      return;
    case HelperWatch::News::kLost:
      helper_stood_still_ = true;  // on_helper_news() follows
      kill();
      return;
  }
}

std::string OtherNodes::helper_name() const {
  return fmt::format("{} (pid {})", kRendezvousName, helper_pid_);
}

void OtherNodes::lose(int exit_code, std::string text) {
  if (lost_.empty()) {
    lost_code_ = exit_code;
    lost_ = std::move(text);
  }
  if (std::exchange(takes_part_, false)) events_.on_lost(lost_code_, lost_);
}

void OtherNodes::say_closed() {
  if (std::exchange(closed_, true)) return;
  link_->close();
  farewell_.cancel();
  events_.on_closed();
}

}  // namespace dl::launcher
