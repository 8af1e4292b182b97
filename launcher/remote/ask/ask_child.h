// A program of this host that answers on its standard output: an ssh, an srun, or a dlrun.
//
// It ends with this process, whatever ends that, and gets no Ctrl-C of the terminal itself. For a
// process with a single thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/remote/ask/ask_guard.h"

namespace dl::launcher::remote {

struct AskLine {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment = {};  // NAME=VALUE; empty: this process's
  UniqueFd input = {};                        // its standard input; empty: none
  // After the deadline it gets SIGTERM and this time to end. Then its process group gets SIGKILL.
  std::chrono::seconds time_to_end{0};
};

class AskChild {
 public:
  // `hosts`: for whom a caller waits who waits for it.
  explicit AskChild(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}
  AskChild(const AskChild&) = delete;
  AskChild& operator=(const AskChild&) = delete;
  AskChild(AskChild&&) = delete;
  AskChild& operator=(AskChild&&) = delete;
  ~AskChild();

  // Throws kIo without pipes. If the program cannot be started, failure() says why.
  void start(AskLine line);
  // Called with each part of its standard output; takes what it has read from the front.
  std::function<void(std::string& text)> on_text = {};
  // Called with each whole line of its standard error.
  std::function<void(const std::string& line)> on_said = {};

  // Waits for the end of the program. To be called after read_answers().
  void end() noexcept;

  std::vector<std::string>& hosts() { return hosts_; }
  std::string& text() { return text_; }              // its standard output
  const std::string& said() const { return said_; }  // the end of its standard error
  int status() const { return status_; }             // as waitpid() gives it, after end()
  std::int64_t began_ns() const { return began_ns_; }
  std::int64_t ended_ns() const { return ended_ns_; }
  bool is_late() const { return is_late_; }
  // True if it was late, and had to be killed after its time to end. To be called after end().
  bool was_deaf() const { return is_late_ && is_given_up_ && time_to_end_.count() > 0; }
  // A clause; empty: it was started, and has written no more than it may.
  const std::string& failure() const { return failure_; }

 private:
  friend void read_answers(const std::vector<AskChild*>& children, std::chrono::seconds patience,
                           const std::function<void(const std::vector<std::string>&)>& on_waiting);
  bool is_open() const { return pid_ > 0 && (out_ || err_ || process_); }
  std::array<int, 3> fds() const { return {out_.get(), err_.get(), process_.get()}; }
  AskedGroup group() const { return {.leader = pid_, .time_to_end = time_to_end_}; }
  void read_from(int fd);
  void read_rest();
  void pass_on_said(std::string_view part);
  void close();

  std::vector<std::string> hosts_;
  std::chrono::seconds time_to_end_{0};
  pid_t pid_ = -1;
  int status_ = 0;
  std::int64_t began_ns_ = 0;
  std::int64_t ended_ns_ = 0;
  UniqueFd out_;
  UniqueFd err_;
  // Readable when the program has ended: ssh may close its streams and live on, and a process that
  // it leaves behind may hold them. Empty before Linux 5.3.
  UniqueFd process_;
  std::string text_;
  std::string said_;
  std::string said_line_;  // the begun line
  std::string failure_;
  bool is_late_ = false;
  bool is_given_up_ = false;
};

// Reads until all have ended, or gives up after `patience`. Every few seconds `on_waiting` gets the
// hosts of the programs that have not ended.
void read_answers(const std::vector<AskChild*>& children, std::chrono::seconds patience,
                  const std::function<void(const std::vector<std::string>&)>& on_waiting);

}  // namespace dl::launcher::remote
