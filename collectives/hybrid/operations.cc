#include "collectives/hybrid/operations.h"

#include <algorithm>
#include <iterator>

namespace dl::collectives::hybrid {

void Operations::settle(Ref<Operation> op, std::exception_ptr error) {
  op->settle(std::move(error));
  finished_.push_back(std::move(op));
}

void Operations::settle_begun() {
  while (!queue_.empty() && front().progress().has_begun()) {
    settle(std::move(queue_.front()), nullptr);
    queue_.pop_front();
  }
}

bool Operations::are_earlier_over(const Operation& op) const noexcept {
  return std::ranges::all_of(finished_, [&](const Ref<Operation>& other) {
    return other->sequence() >= op.sequence() || other->progress().are_works_over();
  });
}

std::vector<Ref<Operation>> Operations::settled_before(const Operation& op) const {
  std::vector<Ref<Operation>> earlier;
  std::ranges::copy_if(finished_, std::back_inserter(earlier), [&](const Ref<Operation>& other) {
    return other->sequence() < op.sequence();
  });
  return earlier;
}

std::vector<Ref<Work>> Operations::under_way() const {
  std::vector<Ref<Work>> works;
  for (const Ref<Operation>& op : finished_) {
    if (!op->progress().are_works_over()) works.emplace_back(op);
  }
  works.insert(works.end(), queue_.begin(), queue_.end());
  return works;
}

std::vector<Ref<Operation>> Operations::take_settled(bool all) {
  const auto first = std::ranges::partition(finished_, [all](const Ref<Operation>& op) {
                       return !all && !op->progress().are_works_over();
                     }).begin();
  std::vector<Ref<Operation>> taken{std::move_iterator(first), std::move_iterator(finished_.end())};
  finished_.erase(first, finished_.end());
  return taken;
}

void Operations::fail(const Cause& cause, std::uint64_t completes_until) {
  cause_ = cause;
  error_ = std::make_exception_ptr(GroupError(cause));
  completes_until_ = completes_until;
}

bool Operations::complete_only(std::uint64_t until) noexcept {
  if (until >= completes_until_) return false;
  completes_until_ = until;
  return true;
}

std::uint64_t Operations::completed(std::uint64_t agreed) const noexcept {
  std::uint64_t last = agreed;
  const auto is_before = [&](const Ref<Operation>& op) {
    last = std::min(last, op->sequence() - 1);
  };
  for (const Ref<Operation>& op : finished_) {
    if (!op->progress().are_works_over()) is_before(op);
  }
  std::ranges::for_each(queue_, is_before);
  return last;
}

LaneCalls Operations::completing_calls() const noexcept {
  LaneCalls calls = calls_;
  const auto leave_out = [&](const Ref<Operation>& op) {
    if (!completes(*op)) calls -= op->progress().calls();
  };
  std::ranges::for_each(finished_, leave_out);
  std::ranges::for_each(queue_, leave_out);
  return calls;
}

void Operations::end_all() {
  while (!queue_.empty() && !completes(*queue_.back())) {
    settle(std::move(queue_.back()), error_);
    queue_.pop_back();
  }
}

}  // namespace dl::collectives::hybrid
