#include "collectives/join/group_options.h"

#include "collectives/join/roster.h"
#include "core/base/error.h"

namespace dl::collectives {

Deadline connect_deadline(const GroupOptions& options) {
  return options.connect_by.value_or(Deadline::after(options.connect_timeout));
}

void check_still_making(const GroupOptions& options, const Identity& who) {
  check_alive(options.name, who);
  if (options.check_making) options.check_making();
}

void forget_connecting(GroupOptions& options) {
  options.store = nullptr;  // it need not outlive the making of the group
  options.connect_by.reset();
  options.all_announced = false;
  options.check_making = nullptr;
  options.segment = nullptr;
}

void check_group_name(const std::string& name) {
  DL_CHECK(!name.empty() && name.size() <= 128 && name.find('/') == std::string::npos,
           kInvalidArgument, "a group's name has 1 to 128 bytes and no '/', got '{}'", name);
}

void check_group(const GroupOptions& o) {
  DL_CHECK(o.size >= 1 && o.rank >= 0 && o.rank < o.size, kInvalidArgument,
           "group '{}': rank is {} of a world size of {}", o.name, o.rank, o.size);
  check_group_name(o.name);
  DL_CHECK(o.size == 1 || o.store != nullptr, kInvalidArgument,
           "group '{}' of {} ranks needs a store for them to find each other", o.name, o.size);
}

}  // namespace dl::collectives
