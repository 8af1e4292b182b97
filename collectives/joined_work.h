// One Work for several: over when all are, with the error of the first that has one.
//
// Whoever waits for it waits for each in turn; their deadlines go on. Thread-safety: work.h.
#pragma once

#include <vector>

#include "collectives/work.h"

namespace dl::collectives {

// None of them null. Of none at all: a Work that is over. source_of() counts them in this order.
Ref<Work> join(std::vector<Ref<Work>> works);

}  // namespace dl::collectives
