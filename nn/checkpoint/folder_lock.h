// FolderLock: lets one process at a time change a folder.
//
// It is a flock() on the folder itself, so it leaves no file behind, ends with its process, and
// excludes all threads, processes and containers that share the file system. On a file system
// without such locks (some network file systems) is_held() is false, and the constructor does not
// wait.
#pragma once

#include <chrono>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::nn {

class FolderLock {
 public:
  // If another process holds the lock, logs its name and waits for it. Throws kIo, or kTimeout with
  // that process; `what` begins these texts: "save a checkpoint".
  FolderLock(const std::string& path, const std::string& what, std::chrono::nanoseconds timeout);

  bool is_held() const noexcept { return is_held_; }
  // The process that held the lock when the constructor began to wait: "process 4711 (train_cnn)".
  // Empty if it did not wait.
  const std::string& other() const noexcept { return other_; }

 private:
  UniqueFd folder_;
  bool is_held_ = false;
  std::string other_{};
};

}  // namespace dl::nn
