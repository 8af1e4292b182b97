// Two hosts of a test's own: network namespaces joined by a veth pair, 10.0.0.1 and 10.0.0.2. They
// share everything else with this machine, and vanish with the object. Needs root.
//
//   if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
//   tests::TwoHosts hosts;
//   tests::Process node0(hosts.on(0, {"dlrun", ...}));
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace dl::tests {

class TwoHosts {
 public:
  // Empty: namespaces can be made here.
  static std::string why_not() {
    const std::string name = new_name("probe");
    if (std::system(("ip netns add " + name + " >/dev/null 2>&1").c_str()) != 0) {
      return "no network namespaces: `ip netns add` needs iproute2 and root";
    }
    run("ip netns delete " + name);
    return "";
  }

  TwoHosts() : names_{new_name("a"), new_name("b")} {
    run("ip netns add " + names_[0]);
    run("ip netns add " + names_[1]);
    run("ip link add eth0 netns " + names_[0] + " type veth peer name eth0 netns " + names_[1]);
    for (int host = 0; host < 2; ++host) {
      const std::string ip = "ip -n " + name(host);
      run(ip + " address add " + address(host) + "/24 dev eth0");
      run(ip + " link set lo up");
      run(ip + " link set eth0 up");
    }
  }
  ~TwoHosts() {
    for (const std::string& name : names_) {
      [[maybe_unused]] const int status = std::system(("ip netns delete " + name).c_str());
    }
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  const std::string& name(int host) const { return names_[host]; }
  std::string address(int host) const { return host == 0 ? "10.0.0.1" : "10.0.0.2"; }

  // Names a host, and gives it an /etc/hosts of its own with these lines below that of localhost.
  void call(int host, const std::string& host_name, const std::string& lines) {
    host_names_[host] = host_name;
    std::ofstream(hosts_file(host)) << "127.0.0.1 localhost\n::1 localhost\n" << lines;
  }
  // Hosts a and b as Debian and Ubuntu set them up: a host's own name is 127.0.1.1.
  void call_as_debian() {
    call(0, "a", "127.0.1.1 a\n10.0.0.2 b\n");
    call(1, "b", "127.0.1.1 b\n10.0.0.1 a\n");
  }

  // The command line that runs `argv` on a host; the process is the program itself.
  std::vector<std::string> on(int host, const std::vector<std::string>& argv) const {
    std::vector<std::string> line = {"ip", "netns", "exec", name(host)};
    if (!host_names_[host].empty()) {
      line.insert(line.end(), {"unshare", "--mount", "--uts", "sh", "-c",
                               "mount --bind " + hosts_file(host) +
                                   " /etc/hosts && hostname \"$0\" && exec \"$@\"",
                               host_names_[host]});
    }
    line.insert(line.end(), argv.begin(), argv.end());
    return line;
  }

  // `ip` on a host, e.g. "route add 10.9.0.1/32 dev eth0".
  void ip(int host, const std::string& arguments) const {
    run("ip -n " + name(host) + " " + arguments);
  }
  // Both directions, e.g. "rate 1gbit burst 256kb latency 20ms".
  void shape(const std::string& tbf) const {
    for (const std::string& name : names_) {
      run("tc -n " + name + " qdisc replace dev eth0 root tbf " + tbf);
    }
  }
  // Nothing arrives any more, without notice.
  void cut() const { run("ip -n " + names_[0] + " link set eth0 down"); }

 private:
  static std::string new_name(const std::string& what) {
    static std::atomic<int> next{0};
    return "dlrun-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + what;
  }
  static void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  }

  std::string hosts_file(int host) const { return dir_.path() + "/hosts" + std::to_string(host); }

  TempDir dir_;
  std::vector<std::string> names_;
  std::string host_names_[2];  // empty: this machine's name and /etc/hosts
};

}  // namespace dl::tests
