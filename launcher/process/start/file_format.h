// Describes a file that the kernel did not execute (ENOEXEC): a script without a `#!` line, which a
// shell runs, or a program that this machine cannot run, which no shell should get.
#pragma once

#include <string>

namespace dl::launcher {

// True if the file is text without a `#!` line. False if it cannot be read.
bool is_shell_text(const std::string& path);

// A clause: "it is an ELF program for aarch64, and this machine is x86_64".
std::string why_not_executed(const std::string& path);
// A clause about a file that was there, and for which exec returned ENOENT.
std::string why_no_interpreter(const std::string& path);

}  // namespace dl::launcher
