#include "launcher/slurm/munge.h"

#include <fmt/core.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "launcher/process/program.h"
#include "launcher/slurm/ask.h"

namespace dl::launcher {
namespace {

std::string_view without_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// Where SLURM's munged listens if not at MUNGE's own place: "AuthInfo =
// socket=/run/x,cred_expire=5" among SLURM's settings. Empty: nothing is said of it.
std::string socket_of_slurm() {
  const Answer config = ask_program({"scontrol", "show", "config"});
  const std::size_t line = config.text.find("\nAuthInfo");
  if (line == std::string::npos) return "";
  const std::string_view info =
      std::string_view(config.text).substr(line + 1, config.text.find('\n', line + 1) - line - 1);
  constexpr std::string_view kSocket = "socket=";
  const std::size_t begin = info.find(kSocket);
  if (begin == std::string_view::npos) return "";
  const std::string_view path = info.substr(begin + kSocket.size());
  return std::string(without_end(path.substr(0, path.find(','))));
}

// MUNGE's usual socket first: asking SLURM asks its controller, and a large job has many nodes.
Answer ask_munge(std::vector<std::string> line, const std::string& input) {
  Answer answer = ask_program(line, input);
  // unmunge knows other failures, too, for which the other socket is no cure and no harm.
  if (answer.status == 0) return answer;
  const std::string socket = socket_of_slurm();
  if (socket.empty()) return answer;
  line.push_back("--socket=" + socket);
  return ask_program(line, input);
}

}  // namespace

bool has_munge() {
  return find_program("munge").exit_code == 0 && find_program("unmunge").exit_code == 0;
}

std::string munge_seal(const std::string& text, std::chrono::seconds life) {
  const Answer answer = ask_munge({"munge", fmt::format("--restrict-uid={}", ::geteuid()),
                                   fmt::format("--ttl={}", life.count())},
                                  text);
  DL_CHECK(answer.status == 0, kIo, "munge: {}; does munged run on this node?",
           without_end(answer.text));
  return std::string(without_end(answer.text));
}

std::string munge_open(const std::string& credential) {
  const Answer answer = ask_munge({"unmunge", "--numeric", "--keys=UID"}, credential);
  DL_CHECK(answer.status == 0, kAuthentication, "unmunge: {}", without_end(answer.text));
  // "UID:          0\n", an empty line, the text.
  const std::string_view all = answer.text;
  const std::size_t end = all.find("\n\n");
  DL_CHECK(all.starts_with("UID:") && end != std::string_view::npos, kAuthentication,
           "unmunge has not said whose credential it is");
  const std::string_view line = all.substr(0, end);
  const std::string_view uid = line.substr(line.find_last_of(" \t") + 1);
  DL_CHECK(uid == std::to_string(::geteuid()), kAuthentication,
           "a credential of user {} came, wanted one of user {}", uid, ::geteuid());
  return std::string(all.substr(end + 2));
}

}  // namespace dl::launcher
