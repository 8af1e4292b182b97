// A Work whose last step runs in the thread that waits for it.
//
// For what a progress thread must not do: users' code, and copies that nobody may want. The step
// runs once, in whoever waits first, after the operation went well; others that wait meanwhile wait
// for it too. What it throws is thrown to all of them. is_completed() tells of the operation alone;
// results stand where they belong once wait() or synchronize() has returned. Thread-safety: work.h.
#pragma once

#include <functional>

#include "collectives/work.h"

namespace dl::collectives {

Ref<Work> finish_with(Ref<Work> work, std::function<void()> step);

}  // namespace dl::collectives
