// What is better said before the training than after hours of it.
#pragma once

#include <string>
#include <string_view>

#include "collectives/api/process_group.h"
#include "examples/train_image/options.h"

namespace dl::examples {

// The options that decide what a step computes, as they are typed. --epochs is among them only if a
// schedule depends on it.
std::string settings_of_steps(const Options& options);

// Throws kMismatch with both sides if a rank was given other settings than rank 0. Called by all
// ranks.
void require_equal_settings(const Options& options, collectives::ProcessGroup& group);

// Throws kInvalidArgument if no file could be written at `path`.
void require_writable(const std::string& path);
// Makes the folder of an option ("--checkpoint-dir") if it is not there. Throws kInvalidArgument if
// nothing can be written there.
void require_writable_folder(std::string_view option, const std::string& path);

}  // namespace dl::examples
