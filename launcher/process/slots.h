// Slots: the processes that a supervisor or the warden has started, by the slots that dlrun gave
// them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

#include "launcher/process/supervisor_channel.h"

namespace dl::launcher {

class Slots {
 public:
  void add(pid_t pid, std::uint32_t slot) { slots_[pid] = slot; }
  bool has(pid_t pid) const { return slots_.contains(pid); }
  bool empty() const { return slots_.empty(); }

  // Sends a signal to the process group in `slot`, or to all with kEverySlot.
  void signal(std::uint32_t slot, int signal) const {
    for (const auto& [pid, its] : slots_) {
      if (slot == kEverySlot || slot == its) ::kill(-pid, signal);
    }
  }

  // The message to dlrun about a reaped child; nullopt if the child was an orphan and has no slot.
  std::optional<Message> ended(pid_t pid, int status) {
    const auto found = slots_.find(pid);
    if (found == slots_.end()) return std::nullopt;
    Message exited;
    exited.kind = MessageKind::kExited;
    exited.slot = found->second;
    exited.number = status;
    slots_.erase(found);
    return exited;
  }

 private:
  std::map<pid_t, std::uint32_t> slots_;
};

}  // namespace dl::launcher
