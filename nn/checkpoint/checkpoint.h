// Checkpoints: all that a run needs to go on, as one folder that is there whole or not at all.
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
// each file's length and SHA-256; Python reads both. A save writes them to a folder aside, brings
// that to the disk, and renames it: a process that is killed, or a machine that loses its power,
// leaves the checkpoints before it as they were. One process should save into a folder; any may
// read. If several save, they do so one after another, and the log names the other one.
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
  std::int64_t step = 0;  // of the run; names the folder, as step-000000001200
  // A name consists of a-z, 0-9, '_', '-' and '.'.
  std::map<std::string, StateDict> parts{};
  std::map<std::string, std::int64_t> numbers{};
  std::map<std::string, std::string> texts{};

  // Throw kNotFound, naming the step.
  const StateDict& part(const std::string& name) const;
  std::int64_t number(const std::string& name) const;
};

struct CheckpointOptions {
  int keep = 3;  // the newest so many stay; older ones are removed after a save
  // How long a save waits for another process that saves into the folder.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
};

class CheckpointDir {
 public:
  // Touches nothing. Throws kInvalidArgument unless options.keep is at least 1.
  explicit CheckpointDir(std::string path, CheckpointOptions options = {});

  // The steps that are there, the oldest first.
  std::vector<std::int64_t> steps() const;
  // Makes the folder if it is not there. Where an old checkpoint cannot be removed, a warning in
  // the log says so. Throws kInvalidArgument for a step that is there already or less than 0 and
  // for names that are not allowed; kTimeout, naming another process that saves; kNotFound or kIo.
  void save(const Checkpoint& checkpoint) const;
  // Throws kNotFound if there is no such step, kIo, and kParse if a file is damaged or missing: the
  // text names it.
  Checkpoint load(std::int64_t step) const;
  // Returns nullopt if there is no checkpoint. A damaged one is an error and not skipped.
  std::optional<Checkpoint> load_latest() const;

 private:
  std::string folder_of(std::int64_t step) const;
  void write_aside(const Checkpoint& checkpoint, const std::string& aside) const;
  void remove_leftovers() const;
  void remove_old() const;

  std::string path_;
  CheckpointOptions options_;
};

// A generator's place in both of its streams, and the way back. Throws kNotFound or kParse.
StateDict random_state(const Generator& generator);
void load_random_state(Generator& generator, const StateDict& state);

}  // namespace dl::nn
