// JobKey: the 256-bit secret of a job. A process that has it belongs to the job. It never appears
// on a wire, in a command line or in a log. A value; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::rendezvous {

class JobKey {
 public:
  static constexpr std::size_t kBytes = 32;

  // From the kernel's random source.
  static JobKey generate();
  // 64 hexadecimal digits; white space around them is allowed. Throws kParse; the text never quotes
  // the key.
  static JobKey from_hex(const std::string& text);
  // Reads DLRUN_KEY_FD, else DLRUN_KEY_FILE; nullopt if neither is set. The descriptor is read with
  // pread, so that other processes can read it again. The file must be a regular file that only its
  // owner can read, or a container's secret on a read-only tmpfs. Throws kIo, kParse and
  // kInvalidArgument.
  static std::optional<JobKey> from_environment();
  // from_environment(), but throws kInvalidArgument if there is no key; the text tells what to do.
  static JobKey require_from_environment();
  // Reads a file as DLRUN_KEY_FILE is read.
  static JobKey from_file(const std::string& path);

  std::string hex() const;
  // A sealed memfd (close-on-exec) with the hexadecimal text.
  UniqueFd to_memfd() const;
  // Writes the hexadecimal text to a new file of mode 0600; throws if the path exists.
  void write_file(const std::string& path) const;

  const std::array<std::uint8_t, kBytes>& bytes() const noexcept { return bytes_; }
  ~JobKey();  // wipes the bytes

 private:
  JobKey() = default;
  std::array<std::uint8_t, kBytes> bytes_{};
};

}  // namespace dl::rendezvous
