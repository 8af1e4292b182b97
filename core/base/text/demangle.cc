#include "core/base/text/printable.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace dl {

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : symbol;
}

std::string class_name(const std::type_info& type) {
  const std::string full = demangled(type.name());
  const std::size_t arguments = full.find('<');  // of a template
  const std::size_t scope = full.rfind("::", arguments);
  return scope == std::string::npos ? full : full.substr(scope + 2);
}

}  // namespace dl
