// StoreService: the store of a job on one node. Its address exists from the start. The service
// behind it starts when the first rank connects, because it takes longer to start than a rank, and
// many programs never use it. It outlives generations.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/system/unique_fd.h"
#include "launcher/nodes/rendezvous_helper.h"

namespace dl::launcher {

class StoreService {
 public:
  // `on_lost` is called if the service has ended; `how` says how. Throws kIo.
  StoreService(boost::asio::io_context& io, WardenClient& warden, NodeOutput& output,
               const UniqueFd& key, std::string job,
               std::function<void(const std::string& how)> on_lost);

  // "127.0.0.1:PORT", for DLRUN_STORE
  const std::string& address() const { return address_; }
  // To be called before the ranks of this generation start: the store then refuses changes by
  // earlier generations.
  void begin_generation(std::uint64_t generation);
  // From now on a client starts no service, and the end of the service is no error.
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
  boost::asio::posix::stream_descriptor door_;  // listens until the service runs
  UniqueFd lifeline_;                           // the service ends when it closes
  std::uint64_t generation_ = 0;
  bool closed_ = false;
};

}  // namespace dl::launcher
