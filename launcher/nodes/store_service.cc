#include "launcher/nodes/store_service.h"

#include <string>

#include "launcher/nodes/listener.h"
#include "launcher/process/rank_files.h"

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
  lifeline_ = std::move(lifeline.write);
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

void StoreService::close() {
  closed_ = true;
  lifeline_.reset();
}

}  // namespace dl::launcher
