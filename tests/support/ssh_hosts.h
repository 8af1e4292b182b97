// Hosts of a test's own that are reached by ssh: network namespaces on one switch, each with a real
// sshd, named a, b, c in a configuration for ssh. The test itself plays a further machine,
// `frontend`. They share everything else with this machine, and vanish with the object. Needs root.
//
//   DL_NEED_SSH_HOSTS();
//   tests::SshHosts hosts(2);
//   tests::Process job(hosts.from_front({"dlrun", "--ssh", hosts.ssh(), "--hosts", "a:2,b:2"}));
#pragma once

#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

// Elsewhere than as root the test is skipped; a run of CI that cannot run it fails.
#define DL_NEED_SSH_HOSTS()                                                          \
  do {                                                                               \
    const std::string why = ::dl::tests::SshHosts::why_not();                        \
    if (why.empty()) break;                                                          \
    if (::geteuid() == 0 && std::getenv("DLRUN_TEST_ALL") != nullptr) FAIL() << why; \
    GTEST_SKIP() << why;                                                             \
  } while (false)

namespace dl::tests {

class SshHosts {
 public:
  // Empty: hosts can be made here.
  static std::string why_not() {
    if (::geteuid() != 0) return "hosts with an sshd need root";
    if (::access("/usr/sbin/sshd", X_OK) != 0) return "no /usr/sbin/sshd (openssh-server)";
    const std::string name = new_name("probe");
    if (std::system(("ip netns add " + name + " >/dev/null 2>&1").c_str()) != 0) {
      return "no network namespaces: `ip netns add` fails";
    }
    run("ip netns delete " + name);
    return "";
  }

  struct Options {
    bool ipv6_only = false;
    std::string sshd = {};  // further lines of every host's sshd_config
  };
  explicit SshHosts(int count) : SshHosts(count, Options()) {}
  SshHosts(int count, const Options& options) : ipv6_(options.ipv6_only) {
    ::mkdir("/run/sshd", 0755);
    switch_ = new_name("switch");
    run("ip netns add " + switch_);
    run("ip -n " + switch_ + " link add br0 type bridge");
    run("ip -n " + switch_ + " link set br0 up");
    frontend_ = add_host(0);
    key("client");
    std::ofstream config(path("ssh_config"));
    config << "IdentityFile " << path("client") << "\nIdentitiesOnly yes\nUser root\nSendEnv "
           << "DLRUN_TEST_MARK\nUserKnownHostsFile " << path("known_hosts")
           << "\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nLogLevel ERROR\n";
    std::ofstream known(path("known_hosts"));
    for (int host = 1; host <= count; ++host) {
      names_.push_back(add_host(host));
      const std::string name(1, static_cast<char>('a' + host - 1));
      key("host_" + name);
      std::ofstream(path("sshd_" + name))
          << "ListenAddress " << address(host) << "\nHostKey " << path("host_" + name)
          << "\nAuthorizedKeysFile " << path("client.pub")
          << "\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
          << "AcceptEnv DLRUN_TEST_MARK\nPidFile none\nSetEnv HOME=" << dir_.path()
          << of_sanitizer() << "\n"
          << options.sshd;
      config << "Host " << name << "\n  HostName " << address(host) << "\n";
      std::string type, public_key;
      std::ifstream(path("host_" + name + ".pub")) >> type >> public_key;
      known << address(host) << " " << type << " " << public_key << "\n";
      servers_.push_back(std::make_unique<Process>(
          on(names_.back(), {"/usr/sbin/sshd", "-D", "-e", "-f", path("sshd_" + name)})));
      if (!servers_.back()->wait_for_err("Server listening")) {
        throw std::runtime_error("sshd: " + servers_.back()->err());
      }
    }
  }
  ~SshHosts() {
    // An sshd of a connection that was cut waits for hours, and has no mark in its environment.
    for (const std::string& name : namespaces_) {
      [[maybe_unused]] const int status =
          std::system(("ip netns pids " + name + " | xargs -r kill -9").c_str());
    }
    servers_.clear();
    for (const std::string& name : namespaces_) {
      [[maybe_unused]] const int status = std::system(("ip netns delete " + name).c_str());
    }
    [[maybe_unused]] const int status = std::system(("ip netns delete " + switch_).c_str());
  }
  SshHosts(const SshHosts&) = delete;
  SshHosts& operator=(const SshHosts&) = delete;

  // The value of --ssh.
  std::string ssh() const { return "ssh -F " + path("ssh_config"); }
  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  // The command line that runs `argv` on the frontend's machine; the process is the program itself.
  std::vector<std::string> from_front(const std::vector<std::string>& argv) const {
    return on(frontend_, argv);
  }
  // Host 1 is a.
  std::string address(int host) const {
    return (ipv6_ ? "fd77::" : "10.77.0.") + std::to_string(host + 1);
  }
  // Nothing arrives any more, without notice.
  void cut(int host) const {
    run("ip -n " + namespaces_.at(static_cast<std::size_t>(host)) + " link set eth0 down");
  }

 private:
  static std::string new_name(const std::string& what) {
    static std::atomic<int> next{0};
    return "dlrun-ssh-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + what;
  }
  // What SetEnv says besides: ssh passes on nothing of this process, and TSan's suppressions hold
  // behind it, too.
  static std::string of_sanitizer() {
    const char* const options = std::getenv("TSAN_OPTIONS");
    return options == nullptr ? "" : std::string(" TSAN_OPTIONS=") + options;
  }
  static void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  }
  static std::vector<std::string> on(const std::string& name,
                                     const std::vector<std::string>& argv) {
    std::vector<std::string> line = {"ip", "netns", "exec", name};
    line.insert(line.end(), argv.begin(), argv.end());
    return line;
  }
  void key(const std::string& name) const {
    run("ssh-keygen -q -t ed25519 -N '' -f " + path(name));
  }
  std::string add_host(int host) {
    const std::string name = new_name("h");
    namespaces_.push_back(name);
    run("ip netns add " + name);
    const std::string port = "p" + std::to_string(host);
    run("ip link add eth0 netns " + name + " type veth peer name " + port + " netns " + switch_);
    run("ip -n " + switch_ + " link set " + port + " master br0 up");
    run("ip -n " + name + " address add " + address(host) + (ipv6_ ? "/64 nodad" : "/24") +
        " dev eth0");
    run("ip -n " + name + " link set lo up");
    run("ip -n " + name + " link set eth0 up");
    return name;
  }

  TempDir dir_;
  bool ipv6_;
  std::string switch_;
  std::string frontend_;
  std::vector<std::string> names_;
  std::vector<std::string> namespaces_;
  std::vector<std::unique_ptr<Process>> servers_;
};

}  // namespace dl::tests
