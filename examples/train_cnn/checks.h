// What is better said before the training than after hours of it.
#pragma once

#include <string>

#include "collectives/process_group.h"
#include "examples/train_cnn/options.h"

namespace dl::examples {

// Throws kMismatch with both sides where a rank was given other settings than rank 0. Called by all
// ranks.
void require_equal_settings(const Options& options, collectives::ProcessGroup& group);

// Throws kInvalidArgument where no file could be written at `path`.
void require_writable(const std::string& path);

}  // namespace dl::examples
