#include "launcher/preempt/saving.h"

#include <utility>

namespace dl::launcher {

void Saving::begin_generation(std::vector<int> ranks, CheckpointEvents events) {
  if (!patience_) return;
  current_ = std::make_unique<Checkpointing>(io_, std::move(ranks), *patience_, std::move(events));
  if (early_request_) current_->ask(*std::exchange(early_request_, std::nullopt));
}

void Saving::end_generation() {
  // The other nodes had not got the request when this generation failed.
  if (current_ && current_->is_requested()) early_request_ = current_->why();
  current_.reset();
}

void Saving::ask(const std::string& why) {
  if (current_ && !current_->is_over()) {
    current_->ask(why);
  } else {
    early_request_ = why;
  }
}

void Saving::announce_end() {
  if (current_) current_->announce_end();
}

bool Saving::has_saved() const {
  return current_ && current_->outcome() == Preemption::Outcome::kSaved;
}

}  // namespace dl::launcher
