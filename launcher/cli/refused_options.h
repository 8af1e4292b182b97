// Options of torchrun that dlrun does not have: refused by name, each with what to do instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

// The sentence for an option that parse_options() did not recognise, as it was typed ("--tee=3",
// "-m").
std::string refusal_of(std::string_view typed);

// What to do instead of an option of torchrun's that dlrun does not have, a clause. No value: it is
// no such option.
std::optional<std::string_view> instead_of(std::string_view option);

}  // namespace dl::launcher
