// A file that appears whole or not at all.
//
// Bytes go to a temporary file beside the target; commit() brings them to the disk and puts them in
// the target's place, so that a reader, and a machine that loses its power, sees the old file or
// the new one. Dropped without commit(), it leaves nothing, and neither does a process that is
// killed, where the file system has files without a name (O_TMPFILE); elsewhere PATH.PID.N.tmp
// stays (a long name is cut). A symbolic link stays one: what it names is replaced. A file that is
// replaced keeps its permissions. One thread uses an object.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl {

class AtomicFile {
 public:
  // Throws kNotFound or kIo, naming the file, as all members do; kInvalidArgument for no name.
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
  std::string target_;     // path_, or the file that it leads to as a symbolic link
  std::string temporary_;  // the name of the new file, once it has one
  bool has_name_ = false;
  UniqueFd fd_;
};

}  // namespace dl
