// Jobs of the probe (group_probe.cc), and what dlrun says of their end.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl::tests {

struct JobOptions {
  std::string backend = "auto";
  const TwoHosts* hosts = nullptr;  // else all nodes are on this one
};

// A job of the probe: so many nodes, each a dlrun of its own on this host, with so many ranks.
class Job {
 public:
  Job(int nodes, int ranks, const std::vector<std::string>& arguments,
      const JobOptions& options = {}) {
    const std::string endpoint = options.hosts != nullptr
                                     ? options.hosts->address(0) + ":29400"
                                     : "127.0.0.1:" + std::to_string(free_port());
    for (int node = 0; node < nodes; ++node) {
      std::vector<std::string> line = {program("dlrun"), "--nproc-per-node", std::to_string(ranks)};
      if (nodes > 1) {
        line.insert(line.end(), {"--nnodes", std::to_string(nodes), "--node-rank",
                                 std::to_string(node), "--rdzv-endpoint", endpoint});
      }
      line.push_back(program("../tests/group_probe"));
      line.insert(line.end(), arguments.begin(), arguments.end());
      if (options.hosts != nullptr) line = options.hosts->on(node, line);
      nodes_.push_back(std::make_unique<Process>(
          line, Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path(),
                                                 "DLRUN_NODE_ID=" + std::to_string(node),
                                                 "DLRUN_BACKEND=" + options.backend}}));
    }
  }
  // The first line that begins so, of what every node says of the end; all must end with `code`.
  void expect(int code, const std::string& first) {
    for (const auto& node : nodes_) {
      EXPECT_EQ(node->wait(), code);
      const std::string err = "\n" + node->err();
      const std::size_t at = err.find("\ndlrun: rank");
      ASSERT_NE(at, std::string::npos) << err;
      const std::string line = err.substr(at + 1, err.find('\n', at + 1) - at - 1);
      EXPECT_THAT(line, testing::StartsWith("dlrun: " + first)) << err;
    }
  }
  std::string err() const { return nodes_.front()->err(); }
  Process& node(int number) { return *nodes_[static_cast<std::size_t>(number)]; }

 private:
  TempDir home_;
  std::vector<std::unique_ptr<Process>> nodes_;
};

}  // namespace dl::tests
