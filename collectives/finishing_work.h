// A Work whose last step runs after the operation: a user's function, or a copy to its place.
//
// The step runs once, after the operation went well, in the thread that waits first or asks first
// whether it is completed, never in a progress thread; others that wait meanwhile wait for it too.
// What it throws is thrown to all of them. The Work is completed when the step is over. If it is
// dropped before that, the step runs at once if the operation is over; otherwise in a thread made
// for it, once the operation is over. Thread-safety: work.h.
#pragma once

#include <functional>

#include "collectives/work.h"

namespace dl::collectives {

// `step` holds what it uses. Dropping it must not wait.
Ref<Work> finish_with(Ref<Work> work, std::function<void()> step);

}  // namespace dl::collectives
