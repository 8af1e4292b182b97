#include "examples/support/training/run_state.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "collectives/compose/objects.h"
#include "core/base/error.h"
#include "core/base/text/number.h"
#include "core/tensor/factories.h"

namespace dl::examples {
namespace {

constexpr const char* kNone = "none";

std::string random_part(int rank) {
  return fmt::format("random.{}", rank);
}

std::string bytes_of(const nn::StateDict& random) {
  std::string bytes;
  for (const auto& [name, tensor] : random) {
    bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return bytes;
}

// A state as this rank's, with the bytes of another rank.
nn::StateDict with_bytes(const nn::StateDict& like, std::string_view bytes) {
  nn::StateDict state;
  for (const auto& [name, tensor] : like) {
    const Tensor copy = empty_like(tensor);
    std::memcpy(copy.data_ptr(), bytes.data(), copy.nbytes());
    bytes.remove_prefix(copy.nbytes());
    state.push_back({name, copy});
  }
  return state;
}

// Existing checkpoints say "on 1 ranks". A run compares this text, so it stays as it is.
std::string to_show(std::string settings) {
  if (settings.ends_with(" on 1 ranks")) settings.pop_back();
  return settings;
}

}  // namespace

RunState::RunState(const RunOptions& run, const std::string& settings, Parts parts,
                   const Ref<collectives::ProcessGroup>& group)
    : run_(run),
      settings_(fmt::format("{} on {} ranks", settings, group->size())),
      parts_(parts),
      group_(group) {
  if (!run.checkpoint_dir.empty()) {
    checkpoints_.emplace(run.checkpoint_dir, nn::CheckpointOptions{.keep = run.keep});
  }
}

std::optional<Position> RunState::resume() {
  if (!checkpoints_) return std::nullopt;
  std::string newest = kNone;
  if (group_->rank() == 0) {
    const std::vector<std::int64_t> steps = checkpoints_->steps();
    DL_CHECK(steps.empty() || run_.resume, kInvalidArgument,
             "--checkpoint-dir {} holds checkpoints of an earlier run; go on with --resume, or "
             "name another folder",
             run_.checkpoint_dir);
    if (!steps.empty()) newest = std::to_string(steps.back());
  }
  // Rank 0 decides: a file system may show the others an older state of the folder.
  newest = collectives::broadcast_bytes(*group_, newest, /*root=*/0);
  const std::optional<std::int64_t> step = read_number<std::int64_t>(newest);
  if (!step) return std::nullopt;
  const nn::Checkpoint found = checkpoints_->load(*step);
  const auto written = found.texts.find("settings");
  DL_CHECK(written != found.texts.end(), kMismatch,
           "the checkpoint of step {} in {} is of another program: it has no settings of {}; "
           "name another folder",
           *step, run_.checkpoint_dir, run_.program);
  DL_CHECK(written->second == settings_, kMismatch,
           "the checkpoint of step {} in {} is of a run with {}, this one is started with {}",
           *step, run_.checkpoint_dir, to_show(written->second), to_show(settings_));
  parts_.model.load_state_dict(found.part("model"));
  parts_.optimizer.load_state_dict(found.part("optimizer"));
  if (parts_.scaler.is_enabled()) parts_.scaler.load_state_dict(found.part("scaler"));
  if (parts_.schedule.changes_rate()) parts_.schedule.load_state_dict(found.part("schedule"));
  if (parts_.average != nullptr) parts_.average->load_state_dict(found.part("average"));
  nn::load_random_state(default_generator(), found.part(random_part(group_->rank())));
  Position position{
      .epoch = found.number("epoch"), .step = found.number("step"), .step_of_run = *step};
  const auto best = found.texts.find("best");  // earlier checkpoints of train_cnn have none
  if (best != found.texts.end()) position.best = read_number<double>(best->second);
  return position;
}

bool RunState::saves_after(std::int64_t step_of_run) const noexcept {
  return checkpoints_ && step_of_run % run_.checkpoint_every == 0;
}

void RunState::after_step(const Position& position) {
  if (!saves_after(position.step_of_run)) return;
  const nn::StateDict mine = nn::random_state(default_generator());
  const std::vector<std::string> random =
      collectives::gather_bytes(*group_, bytes_of(mine), /*root=*/0);
  if (group_->rank() != 0) return;
  nn::Checkpoint checkpoint{
      .step = position.step_of_run,
      .parts = {{"model", parts_.model.state_dict()}, {"optimizer", parts_.optimizer.state_dict()}},
      .numbers = {{"epoch", position.epoch}, {"step", position.step}},
      .texts = {{"settings", settings_}}};
  if (position.best) checkpoint.texts["best"] = fmt::format("{}", *position.best);
  if (parts_.scaler.is_enabled()) checkpoint.parts["scaler"] = parts_.scaler.state_dict();
  if (parts_.schedule.changes_rate()) checkpoint.parts["schedule"] = parts_.schedule.state_dict();
  if (parts_.average != nullptr) checkpoint.parts["average"] = parts_.average->state_dict();
  for (int rank = 0; rank < group_->size(); ++rank) {
    checkpoint.parts[random_part(rank)] = with_bytes(mine, random[static_cast<std::size_t>(rank)]);
  }
  checkpoints_->save(checkpoint);
}

void RunState::keep_best(const nn::Module& model, const nn::Metadata& metadata) const {
  if (!checkpoints_ || group_->rank() != 0) return;
  nn::save_safetensors(run_.checkpoint_dir + "/best.safetensors", model.state_dict(), metadata);
}

}  // namespace dl::examples
