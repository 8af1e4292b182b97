// FrameLogs: the files under --log-dir of a job whose ranks run on other hosts. It writes incoming
// frames to files on the frontend's host and passes them on to the next FrameTaker. The layout is
// that of node_output.h.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/output/logs/log_file.h"

namespace dl::launcher {

class FrameLogs : public FrameTaker {
 public:
  struct Place {
    std::string log_dir;  // empty: no logs, and all frames are only passed on
    std::string run;
  };
  // `say` shows a sentence to the user; `fail` does so and ends the job.
  FrameLogs(DiskThread& disk, FrameTaker& next, Place place,
            std::function<void(const std::string&)> say,
            std::function<void(const std::string&)> fail);

  // Makes the folders of these ranks of one node. To be called before the first of their frames.
  void begin_attempt(int attempt, const std::vector<int>& ranks);
  // DIR/RUN, for a text.
  std::string run_folder() const { return place_.log_dir + "/" + place_.run; }
  // Keeps a file that a rank left. Returns false if there are no logs.
  bool keep(int attempt, int rank, const std::string& name, const std::string& bytes);

  bool has_room(Stream stream) const override { return next_.has_room(stream) && !is_full(); }
  void when_room(Stream stream, std::function<void()> ready) override;
  // Frames of a rank wait until its folder is made.
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
  std::map<int, std::string> folders_;   // of attempts whose folders are made
  std::map<StreamId, std::unique_ptr<LogFile>> logs_;
  std::vector<Waiting> waiting_;
  std::vector<std::function<void()>> for_disk_;
  bool said_broken_ = false;
};

}  // namespace dl::launcher
