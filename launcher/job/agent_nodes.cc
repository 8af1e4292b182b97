// The agent and what lies beyond its ranks: the store's service, and the other nodes.
#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/job/agent.h"
#include "launcher/process/program.h"
#include "launcher/process/rank_files.h"

namespace dl::launcher {
namespace {

constexpr const char* kHelperName = "dlrun-rendezvous";

}  // namespace

// The service behind the store's address takes longer to start than a rank, and many programs never
// ask for it.
void Agent::wait_for_store_client() {
  Listening listening = listen_on_loopback();
  meeting_->store = listening.address;
  store_door_.assign(listening.fd.release());
  store_door_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this](const boost::system::error_code& error) {
        if (error || stopping_ || finishing_) return;
        Pipe lifeline = make_pipe();
        service_lifeline_ = std::move(lifeline.write);
        start_helper({"serve", "--fd", std::to_string(kListenerFd), "--job", plan_.job},
                     std::move(lifeline.read), open_null(), UniqueFd(store_door_.release()));
      });
}

void Agent::join_nodes() {
  UniqueFd listener;
  if (plan_.node_rank == 0) listener = listen_everywhere(plan_.rdzv_endpoint, plan_.host).fd;
  const int master_port = supposed_meeting(plan_).master_port;
  link_ = std::make_unique<NodeLink>(
      io_,
      NodeEvents{.on_generation =
                     [this](Meeting meeting) {
                       if (stopping_) return;
                       meeting_ = std::move(meeting);
                       if (!options_.master_addr.empty()) {
                         meeting_->master_addr = options_.master_addr;
                       }
                       open_logs();
                     },
                 .on_failed = [this](JobFailure f) { on_job_failed(std::move(f)); },
                 .on_all_done = [this] { close_link(); },
                 .on_question = [this](rendezvous::Question question) { on_question(question); },
                 .on_error = [this](const std::string& kind,
                                    const std::string& text) { on_link_error(kind, text); },
                 .on_line = [this](const std::string& line) { say(line); }});
  std::vector<std::string> arguments = {
      "join",
      "--endpoint",
      plan_.rdzv_endpoint,
      "--job",
      plan_.job,
      "--timeout",
      std::to_string(std::max<std::int64_t>(
          1, std::chrono::ceil<std::chrono::seconds>(options_.join_timeout).count()))};
  if (listener) {
    arguments.insert(arguments.end(), {"--listen-fd", std::to_string(kListenerFd)});
  }
  start_helper(std::move(arguments), link_->take_stdin(), link_->take_stdout(),
               std::move(listener));
  link_->join(plan_, master_port);
}

// dlrun-rendezvous stands beside dlrun.
void Agent::start_helper(std::vector<std::string> arguments, UniqueFd in, UniqueFd out,
                         UniqueFd listener) {
  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = kFirstHelperSlot;
  spawn.text = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kHelperName;
  spawn.argv = std::move(arguments);
  spawn.argv.insert(spawn.argv.begin(), kHelperName);
  spawn.environment = {
      fmt::format("{}={}", env::name_of(env::Var::kKeyFd), kKeyFd),
      fmt::format("{}={}", env::name_of(env::Var::kKeyFile), path_of_descriptor(key_.get()))};
  Pipe err_pipe = make_pipe();
  const auto give = [&spawn](UniqueFd fd, int child_number) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(child_number);
  };
  give(std::move(in), STDIN_FILENO);
  give(std::move(out), STDOUT_FILENO);
  give(std::move(err_pipe.write), STDERR_FILENO);
  give(duplicate(key_.get()), kKeyFd);
  if (listener) give(std::move(listener), kListenerFd);
  helper_runs_ = true;
  supervisor_.send(std::move(spawn));
  output_.add(std::move(err_pipe.read), JobOutput::Stream::kErr, -1, "");
}

void Agent::on_helper_message(const Message& message) {
  if (message.kind == MessageKind::kStarted) return;
  helper_runs_ = false;
  if (link_) link_->read_rest();
  if (link_over_ || finishing_) {  // as asked
    finish_if_all_ended();
    return;
  }
  link_over_ = true;
  std::string how = message.kind == MessageKind::kNotStarted
                        ? fmt::format("could not be started: {}", std::strerror(message.number))
                        : how_it_ended(message.number);
  end_job({1, fmt::format("{}, which the ranks meet through, {}", kHelperName, how)}, SIGTERM);
  finish_if_all_ended();
}

// The service has found the first cause in the whole job.
void Agent::on_job_failed(JobFailure failure) {
  link_over_ = true;
  const bool has_left = failure.rank < 0 && meeting_ && failure.group_rank == meeting_->group_rank;
  if (!has_left && !other_cause_) job_failure_ = std::move(failure);
  stop_ranks(SIGTERM);
  finish_if_all_ended();
}

void Agent::on_link_error(const std::string& kind, const std::string& text) {
  link_over_ = true;
  const bool late = kind == name_of(ErrorKind::kTimeout);
  end_job({late ? kExitTimeout : 1,
           kind == "refused" ? "this node is not part of the job: " + text : text},
          SIGTERM);
  finish_if_all_ended();
}

// Our last word is said; the helper ends when its input closes, and sees to it that the others have
// heard theirs.
void Agent::close_link() {
  link_over_ = true;
  link_->close();
  if (!helper_runs_) {
    finish_if_all_ended();
    return;
  }
  link_timer_.expires_after(kFarewell);
  link_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) finish();
  });
}

}  // namespace dl::launcher
