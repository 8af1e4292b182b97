#include "collectives/join/group_options.h"

#include "collectives/join/roster.h"
#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "core/base/text/utf8.h"

namespace dl::collectives {

Deadline connect_deadline(const GroupOptions& options) {
  return options.connect_by.value_or(Deadline::after(options.connect_timeout));
}

void check_still_making(const GroupOptions& options, const Identity& who) {
  if (options.check_making) options.check_making();  // it may say why the rank has ended
  check_alive(options.name, who);
}

void forget_connecting(GroupOptions& options) {
  options.store = nullptr;  // it need not outlive the making of the group
  options.connect_by.reset();
  options.all_announced = false;
  options.check_making = nullptr;
  options.check_absent = nullptr;
  options.segment = nullptr;
}

void check_group_name(const std::string& name) {
  constexpr std::size_t kShown = 60;
  const auto refuse = [&](std::string_view wanted) {
    const bool is_long = name.size() > kShown;
    throw_error(ErrorKind::kInvalidArgument, "a group's name {}, got {}{}", wanted,
                quoted_name(std::string_view(name).substr(0, kShown)), is_long ? "..." : "");
  };
  if (name.empty() || name.size() > 128 || name.find('/') != std::string::npos) {
    refuse("has 1 to 128 bytes and no '/'");
  }
  if (!is_printable_utf8(name)) refuse("is UTF-8 without control characters");
}

void check_group(const GroupOptions& o) {
  DL_CHECK(o.size >= 1 && o.rank >= 0 && o.rank < o.size, kInvalidArgument,
           "group '{}': rank is {} of a world size of {}", o.name, o.rank, o.size);
  check_group_name(o.name);
  DL_CHECK(o.size == 1 || o.store != nullptr, kInvalidArgument,
           "group '{}' of {} ranks needs a store for them to find each other", o.name, o.size);
}

}  // namespace dl::collectives
