// This process: its file, and how the warden and each supervisor set up theirs after fork().
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

// The file of this program.
const std::filesystem::path& own_file();

// argc and argv of main(). `ps` shows their memory.
struct CommandLine {
  int argc = 0;
  char** argv = nullptr;
};

// Gives this process a name of its own in `ps`, `killall` and `pkill -f`.
void rename_process(const char* name, CommandLine line);

// Closes dlrun's standard streams in this process: a reader of dlrun's output must see its end when
// dlrun ends.
void let_go_of_standard_streams();

// Gives every signal its default action, for this process, its forks, and the programs that they
// execute (spawn.h).
void take_default_actions();

// Blocks every signal. Returns a descriptor that is readable when a child has ended. Throws kIo.
UniqueFd take_signals();
// Empties the descriptor of take_signals().
void drain_signals(int signals);
// Empties the descriptor, and reaps every child that has ended. `on_ended` gets its waitpid()
// status.
void reap_children(int signals, const std::function<void(pid_t pid, int status)>& on_ended);

}  // namespace dl::launcher
