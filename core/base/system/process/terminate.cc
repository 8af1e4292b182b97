#include "core/base/system/process/terminate.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"

namespace dl {
namespace {

std::terminate_handler previous_handler = nullptr;

// Formatted in advance, because there is no memory for it later.
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
      // Not an Error: the program's own handler shows it.
    }
  }
  previous_handler();
  std::abort();
}

void prepare_line() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    fmt::format_to_n(out_of_memory_line.data(), out_of_memory_line.size() - 1, "error: {}\n",
                     out_of_memory_text());
  });
}

// Whether 8 MiB can be mapped: a thread's stack, the largest block that gRPC asks for.
bool has_address_space() noexcept {
  constexpr std::size_t kStack = std::size_t{8} << 20;
  void* const room = ::mmap(nullptr, kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, kStack);
  return true;
}

// Calls only what a signal handler may call.
void on_fault(int signal, siginfo_t* info, void*) {
  if (!has_address_space()) {
    [[maybe_unused]] const auto written =
        ::write(STDERR_FILENO, out_of_memory_line.data(), std::strlen(out_of_memory_line.data()));
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);
  // Raise a signal again that a process has sent; a fault happens again by itself.
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void end_with_text_without_address_space() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  prepare_line();
  for (const int signal : {SIGABRT, SIGSEGV}) {
    struct sigaction now{};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours{};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal, &ours, nullptr);
  }
}

void end_with_text_when_uncaught() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    previous_handler = std::get_terminate();
    if (previous_handler != __gnu_cxx::__verbose_terminate_handler) return;
    prepare_line();
    std::set_terminate(end_with_text);
  });
}

}  // namespace dl
