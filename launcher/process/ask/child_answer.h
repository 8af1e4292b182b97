// Runs a function in a child process and takes the text that it returns. For libraries of drivers,
// which may hang or crash.
//
//   const auto text = answer_of_child([] { return std::string("42"); }, std::chrono::seconds(20));
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace dl::launcher {

// nullopt: the deadline has passed; the child is killed, but not waited for, because a process that
// waits in a driver dies when the driver lets it. A child that crashes gives a text without its
// end. To be called before any thread exists. Throws kIo.
std::optional<std::string> answer_of_child(const std::function<std::string()>& function,
                                           std::chrono::milliseconds deadline);

}  // namespace dl::launcher
