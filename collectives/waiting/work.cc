#include "collectives/waiting/work.h"

#include <utility>

#include "core/base/system/machine/thread.h"

namespace dl::collectives {

void Work::watch(Ref<Alarm> alarm) {
  // The thread's wait also drives the operation, in groups whose callers do.
  auto wait = [work = Ref<Work>(this), alarm = std::move(alarm)] {
    try {
      work->synchronize();
    } catch (const std::exception&) {  // who waits for the Work gets it
    }
    alarm->ring();
  };
  make_thread("an operation's watch", std::move(wait)).detach();
}

}  // namespace dl::collectives
