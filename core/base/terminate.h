// The end of a program by an exception that nobody catches: its text on stderr and exit code 1
// instead of abort(), for an Error and for the want of memory, which a thread of a library meets
// where none of our callers can catch it. All other exceptions are left to the program.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

namespace dl {

// Installs a terminate handler for that, unless the program has one of its own. The first Error
// does so, too. Harmless when repeated.
void end_with_text_when_uncaught() noexcept;

}  // namespace dl
