// Checkpoints: the state that a run needs to continue, as one folder that is always complete.
//
//     nn::CheckpointDir checkpoints("run7", {.keep = 3});
//     checkpoints.save({.step = step,
//                       .parts = {{"model", model.state_dict()},
//                                 {"optimizer", opt.state_dict()},
//                                 {"random", nn::random_state(default_generator())}},
//                       .numbers = {{"epoch", epoch}}});
//
//     if (const auto last = checkpoints.load_latest()) {
//       model.load_state_dict(last->part("model"));
//       opt.load_state_dict(last->part("optimizer"));
//       nn::load_random_state(default_generator(), last->part("random"));
//     }
//
// The folder holds a safetensors file for each part, and checkpoint.json with numbers, texts, and
// each file's length and SHA-256; Python reads both. A save writes them to a temporary folder,
// syncs it to disk, and renames it: a killed process or a power loss never damages earlier
// checkpoints. One process should save into a folder; any may read. If several save, they take
// turns, and the log names the other process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/random/generator.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {

struct Checkpoint {
  std::int64_t step = 0;  // of the run; part of the folder's name, as step-000000001200
  // A name consists of a-z, 0-9, '_', '-' and '.'.
  std::map<std::string, StateDict> parts{};
  std::map<std::string, std::int64_t> numbers{};
  std::map<std::string, std::string> texts{};

  // Throw kNotFound with the step.
  const StateDict& part(const std::string& name) const;
  std::int64_t number(const std::string& name) const;
};

struct CheckpointOptions {
  int keep = 3;  // how many checkpoints to keep; a save removes older ones
  // How long a save waits for another process that saves into the folder.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
};

class CheckpointDir {
 public:
  // Does not access the disk. Throws kInvalidArgument unless options.keep is at least 1.
  explicit CheckpointDir(std::string path, CheckpointOptions options = {});

  // The saved steps in ascending order.
  std::vector<std::int64_t> steps() const;
  // Makes the folder if it does not exist. Logs a warning if an old checkpoint cannot be removed.
  // Throws kInvalidArgument for a step that exists already or is negative and for invalid names;
  // kTimeout with the other process that saves; kNotFound or kIo.
  void save(const Checkpoint& checkpoint) const;
  // Throws kNotFound if there is no such step, kIo, and kParse with the file's name if one is
  // damaged or missing.
  Checkpoint load(std::int64_t step) const;
  // Returns nullopt if there is no checkpoint. Throws for a damaged one instead of skipping it.
  std::optional<Checkpoint> load_latest() const;

 private:
  std::string folder_of(std::int64_t step) const;
  void write_aside(const Checkpoint& checkpoint, const std::string& aside) const;
  void remove_leftovers() const;
  void remove_old() const;

  std::string path_;
  CheckpointOptions options_;
};

// Save and restore a generator's position in both of its streams. Throws kNotFound or kParse.
StateDict random_state(const Generator& generator);
void load_random_state(Generator& generator, const StateDict& state);

}  // namespace dl::nn
