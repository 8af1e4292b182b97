// C++ names as in the source. Thread-safety: any thread may call.
#pragma once

#include <string>
#include <typeinfo>

namespace dl {

// "my::scale(int)" for a mangled symbol or type; returns `symbol` itself if it is not mangled.
std::string demangled(const char* symbol);

// "Scale" for my::(anonymous namespace)::Scale; template arguments are kept as they are.
std::string class_name(const std::type_info& type);

}  // namespace dl
