// A Work with a last step after the operation: a user's function, or a copy of the result.
//
// The step runs once, after the operation succeeded, in the first thread that waits or polls, never
// in a progress thread; other threads that wait meanwhile wait for the step too. All of them get
// its exception. The Work is completed when the step is over. A dropped Work still runs its step:
// at once if the operation is over, otherwise later in a thread of its own. Thread-safety: work.h.
#pragma once

#include <functional>

#include "collectives/waiting/work.h"

namespace dl::collectives {

// `step` owns what it uses. Dropping it must not wait.
Ref<Work> finish_with(Ref<Work> work, std::function<void()> step);

}  // namespace dl::collectives
