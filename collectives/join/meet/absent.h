// Absent: the ranks that have not come to an exchange, as errors and dlrun name them; and ranks
// that have come twice.
//
// Values; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/join/meet/exchange.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::meet {

struct Absent {
  std::string list{};  // "ranks 2 and 5 of 8"
  std::size_t count = 0;
  int first = -1;  // in the job; -1: not known
};

// `ranks`: of the group. If the group is the whole job, ranks that have not told their number have
// the numbers that no other rank has.
Absent absent_of(const ExchangeOptions& options, const std::vector<int>& ranks);

// The rank's number in the job; -1: not known.
int job_rank_of(const ExchangeOptions& options, int rank);
// "ranks 2 and 5 of 8": ranks of which no more is known.
std::string ranks_text(const ExchangeOptions& options, const std::vector<int>& ranks);

// "group 'world': ranks 2 and 5 of 8 have not come within 10 s; is it started, ...". Blames the
// first of these ranks.
GroupError late_error(const ExchangeOptions& options, const Absent& absent);
inline GroupError late_error(const ExchangeOptions& options, const std::vector<int>& ranks) {
  return late_error(options, absent_of(options, ranks));
}

// For two processes that have come as one rank: "group 'world': rank 1 (...) and rank 2 (...) have
// both come as rank 1; ...".
std::string twice_text(const std::string& group, int rank, const std::string& first,
                       const std::string& second);

}  // namespace dl::collectives::meet
