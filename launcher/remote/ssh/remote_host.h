// RemoteHost: one remote host of a job. It exchanges messages with the host's agent, over any
// AgentLine.
//
// One thread. All constructor arguments must outlive it. It must not be destroyed inside one of its
// own events.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/remote/agent_line.h"
#include "launcher/remote/frames/channel.h"
#include "launcher/remote/frames/messages.h"

namespace dl::launcher::remote {

class RemoteHost;

class RemoteHostEvents {
 public:
  virtual ~RemoteHostEvents() = default;
  // The agent has answered, has this version, and was sent its Start.
  virtual void on_answered(RemoteHost& host) = 0;
  virtual void on_listening(RemoteHost& host, const std::vector<std::string>& endpoints) = 0;
  virtual void on_sentence(RemoteHost& host, const std::string& text) = 0;
  virtual void on_line_said(const std::string& text) = 0;
  virtual void on_attempt(RemoteHost& host, const Attempt& attempt) = 0;
  virtual void on_rank(const RankNews& news) = 0;
  virtual void on_output(RemoteHost& host, const Output& output) = 0;
  virtual void on_decided(RemoteHost& host, Verdict verdict) = 0;
  virtual void on_begins_again(RemoteHost& host, BeginsAgain news) = 0;
  // Called at most once: the host cannot take part, or not any more. `text`: a sentence with its
  // name.
  virtual void on_failed(RemoteHost& host, int exit_code, const std::string& text) = 0;
  virtual void on_file(const RankFile& file) = 0;
  // Rank 0's host has room for this many more bytes.
  virtual void on_input_room(std::uint32_t bytes) = 0;
  virtual void on_over(RemoteHost& host, const Over& over) = 0;
  // Called last: the host's line has ended, and all its output was read.
  virtual void on_gone(RemoteHost& host) = 0;
};

class RemoteHost {
 public:
  // `dlrun`: the path of dlrun, for error texts.
  RemoteHost(boost::asio::io_context& io, int node, std::unique_ptr<AgentLine> line,
             std::string dlrun, Start start, RemoteHostEvents& events);
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  void connect();
  void send(const Value& value) {
    if (channel_) channel_->send(value);
  }
  // Closes the agent's input; the agent then ends.
  void close() {
    if (channel_) channel_->close();
  }
  // Ends the line, and with it the agent.
  void kill() {
    close();
    if (connecting_) line_->kill();
  }

  int node() const { return node_; }
  const std::string& name() const { return start_.host; }
  bool is_connecting() const { return connecting_ && !answered_ && !gone_; }
  bool has_answered() const { return answered_; }
  // True if the agent has answered, and has neither ended nor failed.
  bool is_there() const { return answered_ && !over_ && !gone_ && !failed_; }
  bool is_over() const { return over_; }
  bool is_gone() const { return gone_ || !connecting_; }
  bool has_failed() const { return failed_; }

  // The time of the agent's last message.
  std::chrono::steady_clock::time_point heard() const { return heard_; }
  // Declares the host lost. `how`: a clause.
  void lose(const std::string& how);

 private:
  void on_value(Value value);
  void open(UniqueFd in, UniqueFd out);
  void greet(const Hello& hello);
  void fail(int exit_code, const std::string& text);
  void check_gone();

  boost::asio::io_context& io_;
  int node_;
  std::string dlrun_;
  Start start_;
  RemoteHostEvents& events_;
  std::unique_ptr<Channel> channel_;  // null: the line is not open
  std::unique_ptr<AgentLine> line_;
  std::string wrong_;  // the error, if bytes came that are no message
  bool connecting_ = false;
  bool answered_ = false;
  bool over_ = false;
  bool failed_ = false;
  bool in_ended_ = false;
  bool gone_ = false;
  std::chrono::steady_clock::time_point heard_{};
};

}  // namespace dl::launcher::remote
