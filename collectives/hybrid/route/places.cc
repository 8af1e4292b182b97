#include "collectives/hybrid/route/places.h"

#include <algorithm>
#include <string_view>

namespace dl::collectives::hybrid {

Places places_of(std::span<const std::string> names) {
  Places places;
  std::vector<std::string_view> seen;  // by node
  for (std::size_t r = 0; r < names.size(); ++r) {
    const auto found = std::find(seen.begin(), seen.end(), names[r]);
    const auto node = static_cast<std::size_t>(found - seen.begin());
    if (found == seen.end()) {
      seen.push_back(names[r]);
      places.nodes.emplace_back();
    }
    places.node_of.push_back(static_cast<int>(node));
    places.index_of.push_back(static_cast<int>(places.nodes[node].size()));
    places.nodes[node].push_back(static_cast<int>(r));
  }
  const std::size_t each = places.nodes.front().size();
  places.is_even = std::all_of(places.nodes.begin(), places.nodes.end(),
                               [&](const auto& ranks) { return ranks.size() == each; });
  places.is_in_order =
      places.is_even && std::is_sorted(places.node_of.begin(), places.node_of.end());
  return places;
}

}  // namespace dl::collectives::hybrid
