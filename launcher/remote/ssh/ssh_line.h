// SshLine: a line to the agent of a host by a process of its own: ssh, or dlrun itself if the host
// is this machine. Its standard input and output are the connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/process/warden/warden_client.h"
#include "launcher/remote/agent_line.h"
#include "launcher/remote/ssh/ssh.h"

namespace dl::launcher::remote {

class SshLine : public AgentLine {
 public:
  // `dlrun`: the path of dlrun, for error texts. io_context and warden must outlive the line.
  SshLine(boost::asio::io_context& io, WardenClient& warden, std::string host, AgentCommand command,
          std::string dlrun);

  void connect(Events events) override;
  void on_answered() override;
  void kill() override;
  bool has_ended() const override;
  std::string why_not_started(std::string_view noise) const override;
  std::string how_it_was_lost() const override;

 private:
  void on_news(const Message& news);
  void take_said();
  void read_said();

  WardenClient& warden_;
  std::string host_;
  AgentCommand command_;
  std::string dlrun_;
  Events events_;
  boost::asio::posix::stream_descriptor err_;
  std::string said_;  // its standard error: all of it before the answer, then the unfinished line
  std::uint32_t slot_ = 0;
  std::optional<int> status_;  // as waitpid() gives it
  std::string not_started_;
  bool connecting_ = false;
  bool answered_ = false;
  bool err_ended_ = false;
};

}  // namespace dl::launcher::remote
