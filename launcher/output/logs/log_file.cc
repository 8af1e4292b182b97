#include "launcher/output/logs/log_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dl::launcher {
namespace {

struct WrittenToLog {
  std::size_t bytes = 0;
  int error = 0;
};

WrittenToLog write_to_log(int fd, std::string_view bytes) {
  WrittenToLog written;
  while (written.bytes < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + written.bytes, bytes.size() - written.bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      written.error = errno;
      break;
    }
    written.bytes += static_cast<std::size_t>(n);
  }
  return written;
}

std::string read_from_log(int fd, std::uint64_t from, std::size_t bytes) {
  std::string text(bytes, '\0');
  ssize_t n;
  do {
    n = ::pread(fd, text.data(), bytes, static_cast<off_t>(from));
  } while (n < 0 && errno == EINTR);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

LogFile::LogFile(DiskThread& disk, UniqueFd file, std::function<void()> on_broken)
    : disk_(disk),
      file_(std::make_shared<const UniqueFd>(std::move(file))),
      on_broken_(std::move(on_broken)) {}

void LogFile::append(std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  waiting_.append(bytes);
  if (!writing_ && !is_broken()) write_some();
}

void LogFile::when_room(std::function<void()> ready) {
  when_room_ = std::move(ready);
}

// The thread gets all waiting bytes in one piece.
void LogFile::write_some() {
  writing_ = std::make_shared<const std::string>(std::move(waiting_));
  waiting_.clear();
  disk_.run([file = file_, bytes = writing_] { return write_to_log(file->get(), *bytes); },
            [this](WrittenToLog written) { on_written(written.bytes, written.error); });
}

void LogFile::on_written(std::size_t bytes, int error) {
  if (error != 0) {
    waiting_.insert(0, writing_->substr(bytes));
    writing_.reset();
    written_ += bytes;
    error_ = std::strerror(error);
    on_broken_();
  } else {
    writing_.reset();
    written_ += bytes;
    if (!waiting_.empty()) write_some();
  }
  if (const auto ready = std::exchange(when_room_, nullptr)) ready();
}

void LogFile::read(std::uint64_t from, std::function<void(std::string)> take) {
  if (from < written_) {
    const std::size_t most = std::min<std::uint64_t>(written_ - from, kMostRead);
    disk_.run([file = file_, from, most] { return read_from_log(file->get(), from, most); },
              std::move(take));
    return;
  }
  std::uint64_t at = from - written_;
  std::string bytes;
  if (writing_ && at < writing_->size()) {
    bytes = writing_->substr(at, kMostRead);
  } else {
    if (writing_) at -= writing_->size();
    bytes = waiting_.substr(at, kMostRead);
  }
  take(std::move(bytes));
}

}  // namespace dl::launcher
