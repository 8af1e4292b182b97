// Compiles the log with spdlog's functions from its headers, as fmt_inside.cc does with fmt's:
// loading libspdlog.so, its libfmt.so and a second libstdc++ takes 0.7 ms in each process.
#undef SPDLOG_COMPILED_LIB
#undef SPDLOG_SHARED_LIB
#define SPDLOG_HEADER_ONLY
#undef FMT_SHARED
#define FMT_HEADER_ONLY
#include "core/base/log/log.cc"  // NOLINT(bugprone-suspicious-include)
