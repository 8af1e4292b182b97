#include "launcher/nodes/store_service.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <string>

#include "launcher/nodes/listener.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

StoreService::StoreService(boost::asio::io_context& io, WardenClient& warden, NodeOutput& output,
                           const UniqueFd& key, std::string job,
                           std::function<void(const std::string& how)> on_lost)
    : warden_(warden),
      output_(output),
      key_(key),
      job_(std::move(job)),
      on_lost_(std::move(on_lost)),
      door_(io) {
  Listening listening = listen_on_loopback();
  address_ = listening.address;
  door_.assign(listening.fd.release());
  wait_for_client();
}

void StoreService::wait_for_client() {
  door_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (!error && !closed_) start();
                   });
}

void StoreService::start() {
  Pipe lifeline = make_pipe();
  ::fcntl(lifeline.write.get(), F_SETFL, O_NONBLOCK);  // one that is stopped reads nothing
  lifeline_ = std::move(lifeline.write);
  tell_generation();
  start_rendezvous(
      warden_, output_, key_,
      {.arguments = {"serve", "--fd", std::to_string(kRendezvousListenerFd), "--job", job_},
       .in = std::move(lifeline.read),
       .out = open_null(),
       .listener = UniqueFd(door_.release())},
      [this](const Message& news) {
        if (news.kind != MessageKind::kStarted && !closed_) on_lost_(how_helper_ended(news));
      });
}

void StoreService::begin_generation(std::uint64_t generation) {
  generation_ = generation;
  tell_generation();
}

// Ignores errors: a pipe has room for some thousand lines, and the end of the service is reported
// elsewhere.
void StoreService::tell_generation() {
  if (!lifeline_) return;
  const std::string line = fmt::format("generation {}\n", generation_);
  [[maybe_unused]] const ssize_t written = ::write(lifeline_.get(), line.data(), line.size());
}

void StoreService::close() {
  closed_ = true;
  lifeline_.reset();
}

}  // namespace dl::launcher
