// One Work for several. It is over when all are, with the error of the first that has one.
//
// A thread that waits for it waits for each in turn; their deadlines still apply. Thread-safety:
// work.h.
#pragma once

#include <vector>

#include "collectives/waiting/work.h"

namespace dl::collectives {

// No element may be null. An empty list gives a Work that is over. source_of(i) is the source of
// works[i].
Ref<Work> join(std::vector<Ref<Work>> works);

}  // namespace dl::collectives
