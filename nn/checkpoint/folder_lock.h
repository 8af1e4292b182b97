// FolderLock: lets one process at a time change a folder.
//
// It is a flock() on the folder itself, so it leaves nothing behind, ends with its process, and
// counts for all threads, processes and containers that share the file system. On a file system
// without such locks (some network file systems) is_held() is false, and nobody waits.
#pragma once

#include <chrono>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::nn {

class FolderLock {
 public:
  // If another process has the folder, the log says which one, and this waits for it. Throws kIo,
  // or kTimeout, naming that process; `what` begins these texts: "save a checkpoint".
  FolderLock(const std::string& path, const std::string& what, std::chrono::nanoseconds timeout);

  bool is_held() const noexcept { return is_held_; }
  // The process that had the folder when this began to wait: "process 4711 (train_cnn)". Empty if
  // it did not wait.
  const std::string& other() const noexcept { return other_; }

 private:
  UniqueFd folder_;
  bool is_held_ = false;
  std::string other_{};
};

}  // namespace dl::nn
