// The files under --log-dir of a job whose ranks run on other hosts: what comes in frames is
// written where the front runs, and goes on to what shows it. The layout is node_output.h's.
//
// One thread. All that it is made with must outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/output/disk_thread.h"
#include "launcher/output/frame.h"
#include "launcher/output/log_file.h"

namespace dl::launcher {

class FrameLogs : public FrameTaker {
 public:
  struct Place {
    std::string log_dir;  // empty: there are no logs, and all frames just go on
    std::string run;
  };
  // `say`: a sentence for the user; `fail`: one that ends the job.
  FrameLogs(DiskThread& disk, FrameTaker& next, Place place,
            std::function<void(const std::string&)> say,
            std::function<void(const std::string&)> fail);

  // Makes the folders of these ranks of one node. Before the first of their frames.
  void begin_attempt(int attempt, int first_rank, int count);
  // DIR/RUN, for a sentence.
  std::string run_folder() const { return place_.log_dir + "/" + place_.run; }
  // A file that a rank left. False: there are no logs.
  bool keep(int attempt, int rank, const std::string& name, const std::string& bytes);

  bool has_room(Stream stream) const override { return next_.has_room(stream) && !is_full(); }
  void when_room(Stream stream, std::function<void()> ready) override;
  // Frames of a rank whose folder is being made wait for it.
  void take(const Frame& frame) override;

 private:
  struct Waiting {
    Frame frame;
    std::string bytes;
  };

  LogFile* full_log() const;
  bool is_full() const { return !waiting_.empty() || full_log() != nullptr; }
  void on_room();
  void on_broken(StreamId id);

  DiskThread& disk_;
  FrameTaker& next_;
  Place place_;
  std::function<void(const std::string&)> say_;
  std::function<void(const std::string&)> fail_;
  std::set<std::pair<int, int>> begun_;  // attempts, and the first rank of each node
  std::map<int, std::string> folders_;   // of attempts that are made
  std::map<StreamId, std::unique_ptr<LogFile>> logs_;
  std::vector<Waiting> waiting_;
  std::vector<std::function<void()>> for_disk_;
  bool said_broken_ = false;
};

}  // namespace dl::launcher
