// check_same: all ranks hold the same list of texts, or every rank throws the same error.
//
// DDP describes its model and options in such a list. What travels is a hash; the texts follow only
// where the hashes differ.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/process_group.h"

namespace dl::nn::parallel {

// Collective: every rank calls it. Throws kMismatch on every rank, naming the first entry in which
// a rank differs from rank 0 and quoting both: "{what}: ... ; {advice}".
void check_same(collectives::ProcessGroup& group, std::span<const std::string> entries,
                std::string_view what, std::string_view advice);

}  // namespace dl::nn::parallel
