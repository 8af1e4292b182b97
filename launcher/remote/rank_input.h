// Rank 0's standard input on a remote host: a pipe that the front's bytes go into. It is this
// process's standard input, as the next generation's rank 0 reads on where the last one stopped.
//
// One thread; the io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace dl::launcher::remote {

class RankInput {
 public:
  // After the warden has been forked, which must not keep the pipe open. `on_taken`: so many bytes
  // are in the pipe. Throws kIo.
  RankInput(boost::asio::io_context& io, std::function<void(std::uint32_t bytes)> on_taken);

  // Empty: the end.
  void take(const std::string& bytes);

 private:
  void write_some();

  boost::asio::posix::stream_descriptor pipe_;
  std::function<void(std::uint32_t)> on_taken_;
  std::string unwritten_;
  bool waits_ = false;
  bool ends_ = false;
};

}  // namespace dl::launcher::remote
