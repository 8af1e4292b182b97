// SoloGroup: a group of one rank, without key, socket or thread. Every operation is a copy that is
// finished when the call returns. Checks and error texts are those of larger groups. Thread-safety:
// process_group.h.
#pragma once

#include <string>

#include "collectives/api/process_group.h"

namespace dl::collectives {

Ref<ProcessGroup> make_solo_group(std::string name = "world");

}  // namespace dl::collectives
