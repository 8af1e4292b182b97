// AtomicFile: a file that appears whole or not at all. Bytes go to a temporary file beside the
// target; commit() syncs them to disk and renames the file to the target, so that a reader sees the
// old file or the new one, even after a power loss. Without commit(), the destructor removes the
// temporary file. If the process is killed, the kernel removes it on file systems with O_TMPFILE;
// on others PATH.PID.N.tmp remains (a long name is cut). If the path is a symbolic link, the file
// it names is replaced. A replaced file keeps its permissions. Thread-safety: one thread uses an
// object.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl {

class AtomicFile {
 public:
  // Throws kNotFound or kIo with the file's name, as all members do; kInvalidArgument for an empty
  // path.
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(int error, const char* what);

  void remove();

  std::string path_;
  std::string target_;     // path_, or the file that it links to
  std::string temporary_;  // the name of the new file, once it has one
  bool has_name_ = false;
  UniqueFd fd_;
};

}  // namespace dl
