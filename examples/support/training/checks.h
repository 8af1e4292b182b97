// What is better said before the training than after hours of it.
#pragma once

#include <string>
#include <string_view>

#include "collectives/api/process_group.h"
#include "examples/support/training/run_options.h"

namespace dl::examples {

// Throws kMismatch with both sides if a rank was given other settings than rank 0. Called by all
// ranks. `settings` are those of the steps; what ranks do together beside computing a step is added
// from `run`.
void require_equal_settings(const std::string& settings, const RunOptions& run,
                            collectives::ProcessGroup& group);

// Throws kInvalidArgument if a file or a folder of the options cannot be written by this rank.
// Makes the folders that are not there.
void require_writable_places(const RunOptions& run, const collectives::ProcessGroup& group);

// Throws kInvalidArgument if no file could be written at `path`, of --save.
void require_writable(const std::string& path);
// Makes the folder of an option ("--checkpoint-dir") if it is not there. Throws kInvalidArgument if
// nothing can be written there.
void require_writable_folder(std::string_view option, const std::string& path);

}  // namespace dl::examples
