// The store of a job on one node: its address is there from the start, and the service behind it
// starts when the first rank connects, as it takes longer to start than a rank, and many programs
// never ask for it. It outlives generations.
//
// One thread. All that it is made with must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/nodes/rendezvous_helper.h"

namespace dl::launcher {

class StoreService {
 public:
  // `on_lost`: the service has ended, how it did. Throws kIo.
  StoreService(boost::asio::io_context& io, WardenClient& warden, NodeOutput& output,
               const UniqueFd& key, std::string job,
               std::function<void(const std::string& how)> on_lost);

  // "127.0.0.1:PORT", for DLRUN_STORE
  const std::string& address() const { return address_; }
  // The ranks of this generation are about to start: changes by earlier ones are refused.
  void begin_generation(std::uint64_t generation);
  // From now on a client starts no service, and the service's end is as it should be.
  void close();

 private:
  void wait_for_client();
  void start();
  void tell_generation();

  WardenClient& warden_;
  NodeOutput& output_;
  const UniqueFd& key_;
  std::string job_;
  std::function<void(const std::string&)> on_lost_;
  std::string address_;
  boost::asio::posix::stream_descriptor door_;  // listens until the service does
  UniqueFd lifeline_;                           // the service ends when it closes
  std::uint64_t generation_ = 0;
  bool closed_ = false;
};

}  // namespace dl::launcher
