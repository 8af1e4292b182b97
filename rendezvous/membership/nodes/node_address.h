// Chooses an address of a node: one at which another node has reached it, if possible. Included by
// .cc files only, because Join is Protobuf's.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

using Joins = std::vector<const dlrun::rendezvous::Join*>;

// The address at which other nodes reach `node`. `all`: the nodes of the generation, in the order
// in which they joined.
std::string address_of(const dlrun::rendezvous::Join& node, const Joins& all);
// The address at which `from` reaches `node`.
std::string address_for(const dlrun::rendezvous::Join& from, const dlrun::rendezvous::Join& node,
                        const Joins& all);

}  // namespace dl::rendezvous
