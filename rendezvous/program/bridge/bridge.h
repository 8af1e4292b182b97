// Bridge: `dlrun-rendezvous join`, which takes part in the membership as one node, for a dlrun that
// does not link gRPC. It reads and writes JSON lines (docs/protocol.md).
//
// The main thread reads dlrun's lines and watches deadlines; a second thread reads the service's
// messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/program/agent_watch.h"
#include "rendezvous/program/bridge/bridge_input.h"
#include "rendezvous/program/bridge/bridge_options.h"
#include "rendezvous/program/bridge/bridge_output.h"
#include "rendezvous/program/bridge/service_silence.h"
#include "rendezvous/program/bridge/service_way.h"
#include "rendezvous/rendezvous.grpc.pb.h"

namespace dl::rendezvous {

class Bridge {
 public:
  explicit Bridge(BridgeOptions options);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  // Runs until dlrun closes its end or the service ends this node's part; returns the exit code.
  int run();

 private:
  bool handle_line(const std::string& line);
  void connect(const dlrun::rendezvous::Join& join, Deadline deadline);
  void introduce(dlrun::rendezvous::Join& join) const;
  void receive();
  bool send(const dlrun::rendezvous::FromNode& message);
  bool keep_time();
  bool keep_time_of_join();
  bool watch_agent();
  bool leave_for(const std::string& why);
  std::string lost_text() const;
  int end();

  BridgeOptions options_;
  GrpcUse grpc_;
  BridgeInput input_;
  BridgeOutput output_;
  ServiceWay way_;
  ServiceSilence silence_;
  std::string host_;  // as dlrun names it
  UniqueFd ended_;    // eventfd: the service's stream has ended

  std::unique_ptr<dlrun::rendezvous::Membership::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<dlrun::rendezvous::FromNode, dlrun::rendezvous::ToNode>>
      stream_;
  std::thread receiver_;
  bool has_met_ = false;  // there was a generation; used by the receiver thread only
  Deadline next_heartbeat_ = Deadline::never();
  Deadline join_by_ = Deadline::never();
  std::optional<AgentWatch> agent_;  // once it has joined
  pid_t agent_pid_ = -1;
  bool left_ = false;    // the service was told the reason
  bool silent_ = false;  // the stream was ended because nothing arrived on it
};

}  // namespace dl::rendezvous
