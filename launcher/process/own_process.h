// What the warden and each supervisor do to themselves after fork().
#pragma once

#include <sys/types.h>

#include <functional>

#include "core/base/unique_fd.h"

namespace dl::launcher {

// argc and argv of main(); their memory shows in `ps`.
struct CommandLine {
  int argc = 0;
  char** argv = nullptr;
};

// Gives this process a name of its own in `ps`, `killall` and `pkill -f`.
void rename_process(const char* name, CommandLine line);

// Closes dlrun's standard streams in this process: a reader of dlrun's output must see the end when
// dlrun ends.
void let_go_of_standard_streams();

// Gives every signal its default action, for this process, those that it forks, and the programs
// that they execute (spawn.h).
void take_default_actions();

// Blocks every signal. The descriptor is readable when a child has ended. Throws kIo.
UniqueFd take_signals();
// Empties the descriptor of take_signals().
void drain_signals(int signals);
// Empties the descriptor, and waits for every child that has ended. `on_ended`: its status as
// waitpid() gives it.
void reap_children(int signals, const std::function<void(pid_t pid, int status)>& on_ended);

}  // namespace dl::launcher
