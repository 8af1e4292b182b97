// The limits that the system sets this process, and what a person can do about one that is too low.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace dl {

// Bytes that a file of this process may have, shared memory included (ulimit -f);
// UINT64_MAX: no limit. Growing one beyond it ends the process with SIGXFSZ, so look before.
std::uint64_t file_size_limit() noexcept;

// Throws kIo if this process may not open so many files more: with what it wants, what it has, and
// the limit. `who`: "group 'world'". What would fail half-way is better told before.
void require_open_files(std::uint64_t more, std::string_view who);

// EMFILE or ENFILE: trying again helps only if something else is closed.
bool is_out_of_files(int error) noexcept;

// What std::strerror() says of an errno value. If a limit is why, also which, what it is and what
// to do: "Too many open files; the limit (ulimit -n) is 256 and one more is wanted: `ulimit -n
// 4096` is allowed".
std::string system_error_text(int error);

// EAGAIN, ENOMEM and the like: a limit or the machine, and not what was asked for.
bool is_want_of_room(int error) noexcept;

// What an errno value of fork(), clone() or std::thread means, with the limit: "Resource
// temporarily unavailable; the system makes no further process or thread: ulimit -u is 4096,
// pids.max of the control group is 42".
std::string spawn_error_text(int error);

// "out of memory: the limit (ulimit -v) is 314572800 bytes".
std::string out_of_memory_text();

// What an exception says; of a std::bad_alloc the above, of a std::system_error of a thread that
// could not be made (whose own words are "Resource temporarily unavailable") also which limit.
std::string text_with_limits(const std::exception& error);

}  // namespace dl
