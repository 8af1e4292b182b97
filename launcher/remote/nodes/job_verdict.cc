#include "launcher/remote/nodes/job_verdict.h"

#include <algorithm>
#include <utility>

namespace dl::launcher::remote {

void JobVerdict::fail(Verdict verdict) {
  if (!verdict_) keep(std::move(verdict));
}

void JobVerdict::decided(Verdict verdict) {
  if (verdict.exit_code == 0) return;
  const bool says_more =
      verdict_ && verdict_->page.empty() && verdict_->exit_code == verdict.exit_code;
  if (!verdict_ || says_more) keep(std::move(verdict));
}

// Before it, what failed last and was to begin again.
void JobVerdict::keep(Verdict verdict) {
  if (const std::optional<BeginsAgain> before = take_restart()) {
    const std::vector<std::string>& lines = before->verdict.page;
    verdict.page.insert(verdict.page.begin(), lines.begin(), lines.end());
  }
  verdict_ = std::move(verdict);
}

// If a node is lost between two generations, no node restarts.
bool JobVerdict::begins_again(int node, BeginsAgain news) {
  restarts_[static_cast<std::size_t>(node)] = news.number;
  if (node == 0) next_ = std::move(news);
  return std::ranges::all_of(restarts_,
                             [this](int number) { return next_ && number >= next_->number; });
}

std::optional<BeginsAgain> JobVerdict::take_restart() {
  return std::exchange(next_, std::nullopt);
}

}  // namespace dl::launcher::remote
