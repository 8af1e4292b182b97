// Resource limits of this process, and error texts that say how to raise one that is too low.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace dl {

// The largest file size in bytes for this process, shared memory included (ulimit -f); UINT64_MAX:
// no limit. A larger file raises SIGXFSZ, so check before growing one.
std::uint64_t file_size_limit() noexcept;

// Throws kIo if this process may not open `more` further files; the text has the number wanted, the
// number open and the limit. `who` begins it: "group 'world'". Check before starting, so that the
// failure is not half-way.
void require_open_files(std::uint64_t more, std::string_view who);

// EMFILE or ENFILE: trying again helps only if something else is closed.
bool is_out_of_files(int error) noexcept;

// The text of std::strerror() for an errno value. If a limit is the reason, also its name, its
// value and what to do: "Too many open files; the limit (ulimit -n) is 256 and one more is wanted:
// `ulimit -n 4096` is allowed".
std::string system_error_text(int error);

// EAGAIN, ENOMEM, ...: a limit or lack of memory, not a wrong argument.
bool is_resource_exhausted(int error) noexcept;

// The text for an errno value of fork(), clone() or std::thread, with the limits: "Resource
// temporarily unavailable; the system makes no further process or thread: ulimit -u is 4096,
// pids.max of the control group is 42".
std::string spawn_error_text(int error);

// "out of memory: the limit (ulimit -v) is 314572800 bytes".
std::string out_of_memory_text();

// The exception's what(). For std::bad_alloc it is out_of_memory_text(); for the std::system_error
// of a thread that could not start, the limits are added.
std::string text_with_limits(const std::exception& error);

}  // namespace dl
