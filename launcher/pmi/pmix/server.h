// Server: libpmix's server for the ranks of one job on one node. libpmix itself collects what the
// ranks of a node exchange; this class answers what only a launcher can.
//
// libpmix calls on a thread of its own. Each such call copies its arguments and posts a task, so
// that all state belongs to the thread of the io_context, which must outlive the server. There is
// one server in a process.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/pmi/pmix/job_info.h"
#include "launcher/pmi/pmix/name_board.h"

namespace dl::pmix {

class Server {
 public:
  struct Events {
    std::function<void(std::uint32_t rank)> on_connected;
    std::function<void(std::uint32_t rank)> on_finalized;
    std::function<void(std::uint32_t rank, int code)> on_abort;
    std::function<void(const std::string&)> on_note;
  };
  // Throws kIo with what libpmix says.
  Server(boost::asio::io_context& io, Job job, Events events);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What a rank must find in its environment: "NAME=value".
  std::vector<std::string> environment_of(std::uint32_t rank) const;

  // For the calls of libpmix.
  static void post(std::function<void(Server&)> task);
  const Events& events() const { return events_; }
  NameBoard& names() { return names_; }
  std::size_t next_context() { return ++last_context_; }

 private:
  boost::asio::io_context& io_;
  Job job_;
  Events events_;
  NameBoard names_;
  std::size_t last_context_ = 0;  // of a group of ranks
};

// The functions that libpmix calls when a rank asks for something (upcalls.cc).
pmix_server_module_t* upcalls();

}  // namespace dl::pmix
