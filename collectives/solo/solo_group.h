// SoloGroup: a group of one rank. No key, no socket, no thread: every operation is a copy, done
// when the call returns. The same checks and texts as in a larger group. Thread-safety:
// process_group.h.
#pragma once

#include <string>

#include "collectives/process_group.h"

namespace dl::collectives {

Ref<ProcessGroup> make_solo_group(std::string name = "world");

}  // namespace dl::collectives
