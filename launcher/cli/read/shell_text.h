// Text that a user writes as lines of a shell: --ssh, and the file of --app.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::read {

// Splits "ssh -F 'my file' # remark" into words. Quotes, backslashes and `#` count as in a shell;
// nothing is expanded. `what` names the text in an error. Throws kInvalidArgument if a quote is not
// closed, or the text ends with a backslash.
std::vector<std::string> shell_words(std::string_view what, std::string_view text);

// A program of a job, with its options.
struct AppLine {
  std::string place;               // "job.app:3"
  std::vector<std::string> words;  // at least one
};

// The lines of a file that have words, a program each, as mpirun reads them; at least one. Throws
// kInvalidArgument with one sentence.
std::vector<AppLine> app_file(const std::string& path);

}  // namespace dl::launcher::read
