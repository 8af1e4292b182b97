#include <core/base/error.h>
#include <core/base/version.h>

#include <cstdio>

int main() {
  try {
    DL_CHECK(false, kInvalidArgument, "dlrun {}", dl::kVersion);
  } catch (const dl::Error& error) {
    std::puts(error.what());
  }
}
