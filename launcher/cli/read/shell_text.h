// Text that a user writes as lines of a shell: --ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::read {

// Splits "ssh -F 'my file' # remark" into words. Quotes, backslashes and `#` count as in a shell;
// nothing is expanded. `what` names the text in an error. Throws kInvalidArgument if a quote is not
// closed, or the text ends with a backslash.
std::vector<std::string> shell_words(std::string_view what, std::string_view text);

}  // namespace dl::launcher::read
