// RemoteOutput: what the ranks on other hosts write. It passes it on to the frontend and its logs,
// and gives each agent credit for as many bytes as were taken.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/output/logs/frame_logs.h"
#include "launcher/remote/frames/messages.h"
#include "launcher/remote/ssh/remote_host.h"

namespace dl::launcher::remote {

class RemoteOutput {
 public:
  // As in FrameLogs.
  RemoteOutput(std::size_t hosts, DiskThread& disk, FrameTaker& frontend, FrameLogs::Place place,
               std::function<void(const std::string&)> say,
               std::function<void(const std::string&)> fail)
      : logs_(disk, frontend, std::move(place), std::move(say), std::move(fail)), hosts_(hosts) {}

  FrameLogs& logs() { return logs_; }
  const FrameLogs& logs() const { return logs_; }

  void take(RemoteHost& from, const Output& output);
  // A lost agent has not ended its streams.
  void end_streams_of(const RemoteHost& host);
  // Keeps a file that a rank left.
  void keep(const RankFile& file);
  // True if the log folder has a flight recorder.
  bool has_recorders() const { return has_recorders_; }

 private:
  struct Flow {
    std::uint32_t owed = 0;  // bytes that were taken and not acknowledged
    bool waits_for_room = false;
  };
  struct OfHost {
    std::set<StreamId> open;  // streams of its ranks that have not ended
    std::array<Flow, 2> flows;
  };

  OfHost& of(const RemoteHost& host) { return hosts_[static_cast<std::size_t>(host.node())]; }
  void give_credit(RemoteHost& host, Stream stream);

  FrameLogs logs_;
  std::vector<OfHost> hosts_;
  bool has_recorders_ = false;
};

}  // namespace dl::launcher::remote
