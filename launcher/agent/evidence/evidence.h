// Evidence: what the ranks of a generation leave behind for the user: error files, flight
// recorders, and while they run what each of them is doing.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/generation/generation.h"
#include "launcher/agent/ranks/recorders.h"
#include "launcher/output/node_output.h"

namespace dl::launcher {

class Evidence {
 public:
  // `say` shows a sentence to the user.
  Evidence(const Generations& generations, NodeOutput& output,
           std::function<void(const std::string&)> say);

  // Rank and content of each error file.
  std::vector<std::pair<int, std::string>> error_files() const;
  // Copies of the flight recorders. Empty if no rank has opened its recorder: the program does not
  // use dlrun's collectives. `cause`: the rank that is the first cause; -1: none.
  std::vector<RecorderCopy> recorders(int cause) const;

  // These write to the log folder, if there is one.
  void keep_error_files();
  void keep_recorders(int cause);

  // Tells which rank waits for which to come to a group, if it has waited for long.
  void report_waits() const;
  // Tells that, and what each rank is doing: by its recorder if it has opened one, else by the
  // kernel. Returns false if no rank runs.
  bool report(int cause) const;

 private:
  const Generations& generations_;
  NodeOutput& output_;
  std::function<void(const std::string&)> say_;
  bool keeps_recorders_ = false;  // the recorders are being copied
};

}  // namespace dl::launcher
