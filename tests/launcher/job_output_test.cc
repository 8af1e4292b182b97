// JobOutput, in child processes that have stdout and stderr of their own.
#include "launcher/output/job/job_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "launcher/output/logs/disk_thread.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMoreThanAPipeHolds = std::size_t{200} << 10;

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  std::size_t unread() const {
    int bytes = 0;
    ::ioctl(reader.get(), FIONREAD, &bytes);
    return static_cast<std::size_t>(bytes);
  }
  UniqueFd reader, writer;
};

// The exit code of a child that writes to these descriptors and calls `body`.
int in_child(int out, int err, const std::function<bool(JobOutput&)>& body) {
  std::fflush(nullptr);  // ThreadSanitizer's _exit() would flush it, into a pipe that is full
  const pid_t pid = ::fork();
  if (pid == 0) {
    bool is_right = false;
    try {
      ::signal(SIGPIPE, SIG_IGN);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
      boost::asio::io_context io;
      DiskThread disk(io);
      JobOutput output(io, disk, [](const StreamId&) { return LineLook(); }, [](LostStream) {});
      is_right = body(output);
    } catch (const std::exception&) {
      is_right = false;
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void take_line(JobOutput& output, Stream stream, std::size_t bytes) {
  output.take({.id = {.attempt = 0, .rank = 0, .stream = stream},
               .time = std::chrono::system_clock::now(),
               .bytes = std::string(bytes - 1, 'x') + "\n",
               .is_last = true});
}

TEST(JobOutput, KeepsTheErrorOfTheStreamThatWasLostFirst) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Pipe unread;
  EXPECT_EQ(in_child(full.get(), unread.writer.get(),
                     [](JobOutput& output) {
                       output.begin_finish();
                       output.set_reader_deadline(JobOutput::Clock::now());
                       take_line(output, Stream::kErr, kMoreThanAPipeHolds);
                       take_line(output, Stream::kOut, 2);
                       output.finish();
                       return output.lost() && output.lost()->stream == Stream::kOut &&
                              output.lost()->error == ENOSPC;
                     }),
            0);
}

// What is said of a stream would only come behind the bytes that wait there.
TEST(JobOutput, SaysNothingOfASilentStreamToThatStream) {
  Pipe unread, left;
  left.reader.reset();
  EXPECT_EQ(in_child(unread.writer.get(), left.writer.get(),
                     [&unread](JobOutput& output) {
                       output.begin_finish();
                       output.set_reader_deadline(JobOutput::Clock::now());
                       take_line(output, Stream::kErr, 2);
                       take_line(output, Stream::kOut, kMoreThanAPipeHolds);
                       output.finish();
                       return unread.unread() + output.out().unwritten() == kMoreThanAPipeHolds;
                     }),
            0);
}

TEST(JobOutput, SpeaksOnStdoutIfStderrIsGone) {
  Pipe read, left;
  left.reader.reset();
  EXPECT_EQ(in_child(read.writer.get(), left.writer.get(),
                     [](JobOutput& output) {
                       output.say("to a reader that has left");
                       output.say("hello");
                       return true;
                     }),
            0);
  read.writer.reset();
  char text[100] = {};
  EXPECT_EQ(::read(read.reader.get(), text, sizeof text), 13);
  EXPECT_EQ(std::string(text), "dlrun: hello\n");
}

}  // namespace
}  // namespace dl::launcher
