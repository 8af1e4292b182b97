#include "rendezvous/membership/nodes/same_job.h"

#include <fmt/format.h>

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

constexpr std::size_t kLongestQuote = 1000;  // bytes

bool both_named(const pb::Join& a, const pb::Join& b) {
  return a.named() && b.named();
}

const char* word_of(pb::Join::RankBy by) {
  return by == pb::Join::NODE ? "node" : "slot";
}

const char* word_of(pb::Join::OnFailure on_failure) {
  return on_failure == pb::Join::KEEP ? "keep" : "stop";
}

const char* word_of(pb::Join::Mpi mpi) {
  return mpi == pb::Join::PMIX ? "ranks of Open MPI" : "--mpi none";
}

std::string ranks_of(const pb::Join& join) {
  return join.np() == 0 ? "without -n" : fmt::format("with -n {}", join.np());
}

}  // namespace

std::optional<std::string> why_another_job(const pb::Join& job, const pb::Join& node) {
  if (node.nnodes() != job.nnodes()) {
    return fmt::format("this node was started for {} nodes, the job has {}", node.nnodes(),
                       job.nnodes());
  }
  if (node.rank_by() != job.rank_by()) {
    return fmt::format("this node was started with --rank-by {}, the job has --rank-by {}",
                       word_of(node.rank_by()), word_of(job.rank_by()));
  }
  if (node.on_failure() != job.on_failure()) {
    return fmt::format("this node was started with --on-failure {}, the job has --on-failure {}",
                       word_of(node.on_failure()), word_of(job.on_failure()));
  }
  if (node.mpi() != job.mpi() && node.mpi() != pb::Join::ANY && job.mpi() != pb::Join::ANY) {
    return fmt::format("this node was started with {}, the job has {}", word_of(node.mpi()),
                       word_of(job.mpi()));
  }
  if (node.np() != job.np()) {
    return fmt::format("this node was started {}, the job {}", ranks_of(node), ranks_of(job));
  }
  if (both_named(job, node) || node.program() == job.program()) return std::nullopt;
  return fmt::format(
      "host {} (pid {}) runs {} (`{}`), but the job at this endpoint runs {} (`{}`, host {}, pid "
      "{}); two jobs need two endpoints, or each its own --rdzv-id",
      node.host(), node.pid(), node.program(), quoted_line(node), job.program(), quoted_line(job),
      job.host(), job.pid());
}

bool may_be_another_job(const pb::Join& job, const pb::Join& node) {
  return !both_named(job, node) && job.line() != node.line();
}

std::string quoted_line(const pb::Join& node) {
  const std::string& line = node.line();
  if (line.size() <= kLongestQuote) return line;
  std::size_t end = kLongestQuote;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // UTF-8
  return line.substr(0, end) + "...";
}

}  // namespace dl::rendezvous
