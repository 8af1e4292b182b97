// Readers of mpirun's options that place and number ranks.
#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

constexpr Word<MapBy> kMapBy[] = {{"slot", MapBy::kCore},
                                  {"core", MapBy::kCore},
                                  {"numa", MapBy::kNuma},
                                  {"socket", MapBy::kSocket}};
constexpr Word<rendezvous::RankBy> kRankBy[] = {{"slot", rendezvous::RankBy::kSlot},
                                                {"node", rendezvous::RankBy::kNode}};

// mpirun's other words, with which it numbers ranks by the cores that they have got.
constexpr std::string_view kCoresOfMpirun =
    "fill span hwthread core l1cache l2cache l3cache socket package numa board";

// N of ppr:N:node.
int ranks_of_resource(const Typed& typed) {
  const std::vector<std::string> parts = split(typed.value, ':');
  DL_CHECK(parts.size() == 3, kInvalidArgument, "{} is `{}`, wanted ppr:N:node", typed.name(),
           typed.value);
  DL_CHECK(parts[2] == "node", kInvalidArgument,
           "{} is `{}`: dlrun counts the ranks of a node, not of a {}; write ppr:N:node, and what "
           "each rank runs on in --bind",
           typed.name(), typed.value, parts[2]);
  return whole_number(std::string(typed.name()) + ": the number of " + typed.value, parts[1], 1,
                      kMost);
}

}  // namespace

void rank_by(Options& options, const Typed& typed) {
  DL_CHECK(!has_word(kCoresOfMpirun, typed.value), kInvalidArgument,
           "{} is `{}`, wanted slot or node; --map-by says which cores the ranks of a node take",
           typed.name(), typed.value);
  options.where.rank_by = value_of(typed, kRankBy);
}

void map_by(Options& options, const Typed& typed) {
  if (typed.value.starts_with("ppr:")) {
    options.where.most_per_node = ranks_of_resource(typed);
    return;
  }
  DL_CHECK(typed.value != "node", kInvalidArgument,
           "{} is `node`: write --rank-by node, which numbers the ranks so", typed.name());
  DL_CHECK(has_word("slot core numa socket", typed.value), kInvalidArgument,
           "{} is `{}`, wanted slot, core, numa, socket or ppr:N:node", typed.name(), typed.value);
  options.where.map_by = value_of(typed, kMapBy);
}

std::string word_of_rank_by(rendezvous::RankBy rank_by) {
  return word_of(rank_by, kRankBy);
}

std::string word_of_map_by(MapBy map_by) {
  return word_of(map_by, kMapBy);
}

}  // namespace dl::launcher::read
