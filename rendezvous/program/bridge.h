// `dlrun-rendezvous join`: takes part in the membership as one node, on behalf of a dlrun that does
// not link gRPC. JSON lines in, JSON lines out (docs/protocol.md).
//
// The main thread reads dlrun's lines and keeps the time; a second thread reads the service's
// messages.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/program/agent_watch.h"
#include "rendezvous/rendezvous.grpc.pb.h"

namespace dl::rendezvous {

struct BridgeOptions {
  Endpoint endpoint;
  // Further addresses of the service; all are raced.
  std::vector<Endpoint> other_endpoints = {};
  std::string job;
  JobKey key;
  std::chrono::seconds timeout{600};  // for a generation to be complete
  Silence silence = {};
  // A dlrun that is stopped or does not run its event loop for this long ends the job.
  std::chrono::seconds agent_timeout{600};
  bool serves = false;  // the service runs in this process
  int in = 0;
  int out = 1;
};

class Bridge {
 public:
  explicit Bridge(BridgeOptions options);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  // Runs until dlrun closes its end or the service ends this node's part; returns the exit code.
  int run();

 private:
  enum class Input : std::uint8_t { kLine, kNothing, kClosed };

  Input next_line(std::string& line);
  bool handle_line(const std::string& line);
  void connect(const dlrun::rendezvous::Join& join, Deadline deadline);
  void introduce(dlrun::rendezvous::Join& join) const;
  Connection connect_by_a_way(const std::vector<Endpoint>& ways, const Hello& hello,
                              Deadline deadline);
  Connection connect_in_turns(const Hello& hello, Deadline deadline);
  void receive();
  bool send(const dlrun::rendezvous::FromNode& message);
  void put(const dlrun::rendezvous::ToNode& message);
  void put_error(std::string_view kind, const std::string& text);
  std::string late_text() const DL_REQUIRES(out_mutex_);
  bool keep_time();
  bool keep_time_of_join();
  bool watch_agent();
  bool leave_for(const std::string& why);
  void look_at_clock();
  std::string with_standstill(std::string text);
  int end();

  BridgeOptions options_;
  std::vector<Endpoint> ways_;  // several addresses of the service that dlrun gave
  GrpcUse grpc_;
  std::string buffer_;
  std::string host_;             // as dlrun names it
  std::string service_address_;  // the service's, as this node reaches it
  std::string own_address_;      // this node's, from which it reaches the service
  bool input_closed_ = false;
  UniqueFd ended_;  // eventfd: the service's stream has ended

  std::unique_ptr<dlrun::rendezvous::Membership::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<dlrun::rendezvous::FromNode, dlrun::rendezvous::ToNode>>
      stream_;
  std::thread receiver_;
  bool has_met_ = false;  // there was a generation; the receiver's
  Deadline next_heartbeat_ = Deadline::never();
  Deadline join_by_ = Deadline::never();
  std::optional<AgentWatch> agent_;  // once it has joined
  pid_t agent_pid_ = -1;
  bool left_ = false;    // the service was told the reason
  bool silent_ = false;  // the stream was ended because nothing arrived on it

  Mutex out_mutex_;
  bool joining_ DL_GUARDED_BY(out_mutex_) = false;  // a join is waiting for its generation
  bool asked_ DL_GUARDED_BY(out_mutex_) =
      false;  // the join is late, and the service was asked for the missing nodes
  bool running_ DL_GUARDED_BY(out_mutex_) = false;  // a generation is running
  bool told_ DL_GUARDED_BY(out_mutex_) = false;  // dlrun has got its last message: refused or error
  bool reader_gone_ DL_GUARDED_BY(out_mutex_) = false;
  std::string last_waiting_ DL_GUARDED_BY(out_mutex_);
  Deadline::Clock::time_point heard_ DL_GUARDED_BY(out_mutex_);  // last message of the service
  Standstill standstill_ DL_GUARDED_BY(out_mutex_);
  Standstill::Span missed_ DL_GUARDED_BY(out_mutex_){
      0};  // time in which this process stood still, for agent_
};

}  // namespace dl::rendezvous
