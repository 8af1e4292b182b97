#include "launcher/verdict/report.h"

#include <algorithm>

namespace dl::launcher {
namespace {

constexpr int kLines = 12;

constexpr std::string_view kSaid[] = {
    "Connection closed by peer",                 // gloo
    "Connection reset by peer",                  // gloo, and whatever reads a socket
    "Broken pipe",                               // the same, writing
    "Did the remote server shutdown or crash?",  // torch's TCPStore
    "remote process exit",                       // NCCL: "exited", "exiting prematurely"
};

}  // namespace

std::string_view last_message(std::string_view text) {
  const std::size_t traceback = text.rfind("Traceback (most recent call last)");
  if (traceback != std::string_view::npos) return text.substr(traceback);
  std::size_t begin = text.size();
  for (int lines = 0; lines <= kLines && begin != std::string_view::npos && begin > 0; ++lines) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == std::string_view::npos ? text : text.substr(begin);
}

bool says_peer_was_lost(std::string_view last_words) {
  const std::string_view message = last_message(last_words);
  return std::any_of(std::begin(kSaid), std::end(kSaid), [message](std::string_view said) {
    return message.find(said) != std::string_view::npos;
  });
}

bool says_port_was_taken(std::string_view last_words) {
  const std::string_view message = last_message(last_words);
  return message.find("ddress already in use") != std::string_view::npos ||
         message.find("EADDRINUSE") != std::string_view::npos;
}

}  // namespace dl::launcher
