// fmt's compiled functions, taken into dlrun and dlrun-srun from its headers: loading libfmt.so,
// and with it a second libstdc++, would cost each launch more than spawning a rank. The libraries
// of both programs call these functions.
#undef FMT_SHARED
#define FMT_HEADER_ONLY
#include <fmt/core.h>
#include <fmt/format.h>

namespace {

// Taking the address of an inline function makes the compiler emit it in this file.
[[gnu::used]] std::string (*const vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] void (*const vprint)(std::FILE*, fmt::string_view, fmt::format_args) = &fmt::vprint;
[[gnu::used]] void (*const vprint_stdout)(fmt::string_view, fmt::format_args) = &fmt::vprint;
[[gnu::used]] void (*const throw_format_error)(const char*) = &fmt::detail::throw_format_error;
[[gnu::used]] fmt::detail::thousands_sep_result<char> (*const thousands_sep)(
    fmt::detail::locale_ref) = &fmt::detail::thousands_sep_impl<char>;
[[gnu::used]] bool (*const is_printable)(std::uint32_t) = &fmt::detail::is_printable;
// spdlog's.
[[gnu::used]] char (*const decimal_point)(fmt::detail::locale_ref) =
    &fmt::detail::decimal_point_impl<char>;
namespace dragonbox = fmt::detail::dragonbox;
[[gnu::used]] dragonbox::decimal_fp<float> (*const float_digits)(float) = &dragonbox::to_decimal;
[[gnu::used]] dragonbox::decimal_fp<double> (*const double_digits)(double) = &dragonbox::to_decimal;

}  // namespace
