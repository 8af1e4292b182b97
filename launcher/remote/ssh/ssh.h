// Starts the agent of a host: by the user's own ssh, or directly if the host is this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::remote {

// The hidden option that makes dlrun an agent: it reads a Start on its standard input.
inline constexpr const char* kAgentWord = "--as-remote-agent";

// A host that does not answer within this time is an error.
inline constexpr int kConnectSeconds = 5;
// ssh ends after this much silence of the host, for example if a cable was cut.
inline constexpr int kSilenceSeconds = 10;

struct AgentCommand {
  std::string path;
  std::vector<std::string> argv;
  bool by_ssh = true;
};

// `ssh`: the words of --ssh. `dlrun`: the absolute path of this program, which must be the same on
// the host. Throws kInvalidArgument.
AgentCommand agent_command(const std::vector<std::string>& ssh, const std::string& host,
                           const std::string& dlrun);

// As agent_command(), for dlrun with other words: `dlrun WORDS...` on the host.
AgentCommand command_on(const std::vector<std::string>& ssh, const std::string& host,
                        const std::string& dlrun, const std::vector<std::string>& words);

// How a login ended that has not become an agent.
struct LoginEnd {
  int status = 0;               // as waitpid() gives it
  std::string_view said = {};   // the end of its standard error
  std::string_view noise = {};  // the end of its standard output
};

// Why an agent ended before its first message: a sentence with the host's name.
std::string why_not_started(const std::string& host, const AgentCommand& command,
                            const LoginEnd& end, const std::string& dlrun);

}  // namespace dl::launcher::remote
