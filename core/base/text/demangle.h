// Names of C++ as a source has them. Thread-safety: any thread may call.
#pragma once

#include <string>
#include <typeinfo>

namespace dl {

// "my::scale(int)" for a mangled symbol or type; the text itself if it is not mangled.
std::string demangled(const char* symbol);

// "Scale" for my::(anonymous namespace)::Scale; template arguments are kept as they are.
std::string class_name(const std::type_info& type);

}  // namespace dl
