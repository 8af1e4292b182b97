#include "core/base/terminate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace dl {
namespace {

std::terminate_handler previous_handler = nullptr;

// Made beforehand, as there is no memory for it then.
std::array<char, 200> out_of_memory_line{};

// One write, so that the line is not torn between ranks that fail together.
[[noreturn]] void end_with(std::string_view line) {
  std::fflush(stdout);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(1);
}

[[noreturn]] void end_with_text() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const Error& error) {
      end_with(fmt::format("error: {}\n", error.what()));
    } catch (const std::bad_alloc&) {
      end_with(out_of_memory_line.data());
    } catch (...) {
      // Not ours: the program's own handler shows it.
    }
  }
  previous_handler();
  std::abort();
}

}  // namespace

void end_with_text_when_uncaught() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    previous_handler = std::get_terminate();
    if (previous_handler != __gnu_cxx::__verbose_terminate_handler) return;
    fmt::format_to_n(out_of_memory_line.data(), out_of_memory_line.size() - 1, "error: {}\n",
                     out_of_memory_text());
    std::set_terminate(end_with_text);
  });
}

}  // namespace dl
