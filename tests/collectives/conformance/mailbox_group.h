// MailboxGroup: a group whose ranks are threads of one process, in as few lines as a backend takes:
// it overrides start(), abort() and error(), and reads the rest in the table of operations. A new
// backend may begin with it.
//
// An operation ends when the last rank calls it: that rank computes the outputs of all. A message
// is copied when it is sent. There is no failure and no deadline. Thread-safety: process_group.h.
#pragma once

#include <vector>

#include "collectives/api/process_group.h"

namespace dl::collectives::testing {

// One group for each of `size` ranks.
std::vector<Ref<ProcessGroup>> make_mailbox_groups(int size);

}  // namespace dl::collectives::testing
