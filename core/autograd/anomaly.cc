#include "core/autograd/anomaly.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/text/printable.h"

namespace dl::detail {
namespace {

// The name of the calling function; without one, "FILE+0xOFFSET" or the address.
std::string text_of_call(void* return_address) {
  // If the call is a function's last instruction, its return address belongs to the next function.
  const void* const call = static_cast<const char*>(return_address) - 1;
  const auto address = reinterpret_cast<std::uintptr_t>(call);
  Dl_info found{};
  if (dladdr(call, &found) == 0 || found.dli_fname == nullptr) {
    return fmt::format("{:#x}", address);
  }
  if (found.dli_sname != nullptr) return demangled(found.dli_sname);
  return fmt::format("{}+{:#x}", found.dli_fname,
                     address - reinterpret_cast<std::uintptr_t>(found.dli_fbase));
}

}  // namespace

Backtrace::Backtrace() {
  std::array<void*, kMaxCalls> calls{};
  const int found = ::backtrace(calls.data(), static_cast<int>(calls.size()));
  // Leaves out the frames of this constructor and of Node's.
  const auto first = calls.begin() + std::min(found, 2);
  count_ = static_cast<std::size_t>(calls.begin() + found - first);
  calls_ = std::make_unique<void*[]>(count_);
  std::copy_n(first, count_, calls_.get());
}

std::string Backtrace::str() const {
  std::string text;
  for (std::size_t i = 0; i < count_; ++i) {
    text += fmt::format("    #{} {}\n", i, text_of_call(calls_[i]));
  }
  return text;
}

}  // namespace dl::detail
