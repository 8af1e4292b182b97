// For a program that contains the listings of a text: runs the listing that its first argument
// names.
#pragma once

#include <span>
#include <string_view>

namespace dl::examples {

struct Listing {
  std::string_view name;   // "A.9"
  std::string_view about;  // one line
  void (*run)();
};

// main() of such a program: without an argument or with --help it prints the listings' names.
// Returns the exit code: 2, after a sentence on stderr, if the argument names no listing.
int run_listing(std::string_view program, std::span<const Listing> listings, int argc,
                const char* const* argv);

}  // namespace dl::examples
