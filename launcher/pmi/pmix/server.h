// Server: libpmix's server for the ranks of one job on one node. libpmix itself collects what the
// ranks of a node exchange; this class answers what only a launcher can, by the job's NodeSpace.
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
#include "launcher/pmi/pmix/nodes/node_space.h"

namespace dl::pmix {

class Server {
 public:
  struct Events {
    std::function<void(std::uint32_t rank)> on_finalized;
    std::function<void(std::uint32_t rank, int code)> on_abort;
    std::function<void(const std::string&)> on_note;
  };
  // `space` must outlive the server. Throws kIo with what libpmix says.
  Server(boost::asio::io_context& io, Job job, NodeSpace& space, Events events);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What a rank must find in its environment: "NAME=value".
  std::vector<std::string> environment_of(std::uint32_t rank) const;

  // Gives what a rank of this node has put for others, or will put.
  void data_of(std::uint32_t rank, NodeSpace::Answer answer) const;

  // For the calls of libpmix.
  static void post(std::function<void(Server&)> task);
  const Events& events() const { return events_; }
  NodeSpace& space() { return space_; }

 private:
  boost::asio::io_context& io_;
  Job job_;
  NodeSpace& space_;
  Events events_;
};

// The functions that libpmix calls when a rank asks for something (upcalls.cc).
pmix_server_module_t* upcalls();

}  // namespace dl::pmix
