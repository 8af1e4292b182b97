// check_same: checks that all ranks have the same list of texts. If not, every rank throws the same
// error.
//
// DDP describes its model and options in such a list. Ranks exchange a hash; they send the texts
// only if the hashes differ.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/api/process_group.h"

namespace dl::nn::parallel {

// Collective: every rank calls it. Throws kMismatch on every rank, quoting the first entry that
// differs from rank 0's: "{what}: rank 2 has ..., rank 0 has ... (entry 3); {advice}".
void check_same(collectives::ProcessGroup& group, std::span<const std::string> entries,
                std::string_view what, std::string_view advice);

}  // namespace dl::nn::parallel
