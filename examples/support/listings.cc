#include "examples/support/listings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "core/base/system/output.h"

namespace dl::examples {
namespace {

void print_names(std::span<const Listing> listings, std::FILE* out) {
  std::size_t width = 0;
  for (const Listing& listing : listings) width = std::max(width, listing.name.size());
  for (const Listing& listing : listings) {
    fmt::print(out, "  {:<{}}  {}\n", listing.name, width, listing.about);
  }
}

}  // namespace

int run_listing(std::string_view program, std::span<const Listing> listings, int argc,
                const char* const* argv) {
  constexpr int kBadUsage = 2;
  const std::string_view word = argc > 1 ? argv[1] : "--help";
  if (argc > 2) {
    dl::write_error(
        fmt::format("{}: got {} words, wanted the name of one listing\n", program, argc - 1));
    return kBadUsage;
  }
  if (word == "-h" || word == "--help") {
    fmt::print("usage: {} LISTING\n\n", program);
    print_names(listings, stdout);
    require_written(stdout, "standard output");
    return 0;
  }
  for (const Listing& listing : listings) {
    if (listing.name != word) continue;
    listing.run();
    require_written(stdout, "standard output");
    return 0;
  }
  dl::write_error(fmt::format("{}: there is no listing {}; these are there:\n", program, word));
  print_names(listings, stderr);
  return kBadUsage;
}

}  // namespace dl::examples
