// RankInput: rank 0's standard input on a remote host: a pipe into which the frontend's bytes go.
// The pipe is this process's standard input, because the next generation's rank 0 continues at the
// byte at which the last one stopped.
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
  // To be made after the warden was forked, because the warden must not keep the pipe open.
  // `on_taken` is called with the number of bytes that have gone into the pipe. Throws kIo.
  RankInput(boost::asio::io_context& io, std::function<void(std::uint32_t bytes)> on_taken);

  // Takes bytes of the input; empty: the end.
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
