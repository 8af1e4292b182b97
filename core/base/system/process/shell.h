// A shell's rules for programs: the search in PATH, exit codes, and how error texts describe the
// end of a process.
//
// Thread-safety: everything here may be used from any thread while no thread changes the
// environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl {

// The paths that `name`, which has no slash, may mean: one for each folder of PATH in order,
// whether or not it exists. An empty entry of PATH is the current folder. If PATH is
// unset or empty, the folders are /usr/local/bin, /usr/bin and /bin.
std::vector<std::string> candidates_in_path(const std::string& name);

// 0, or the errno value that says why this process may not execute the file; EISDIR for a folder.
// The file's content is not checked.
int why_not_executable(const std::string& path);

// The exit code of a process that ended with `wait_status`, as waitpid() gives it: 128 + n after
// signal n.
int shell_exit_code(int wait_status);

// "ended with exit code 7", "was killed by signal 9 (SIGKILL)"; `wait_status` as above.
std::string how_it_ended(int wait_status);

// "SIGKILL", "SIGRTMIN+3"; "signal 32" for a number without a name.
std::string signal_name(int signal);
// "SIGUSR1", "USR1" and "10": 10; 0: there is no such signal.
int signal_number(std::string_view name);

}  // namespace dl
