//===- NearestName.h - What was meant by a name that nothing has -----------------------------===//
#ifndef TOOLS_CONFIG_NEARESTNAME_H
#define TOOLS_CONFIG_NEARESTNAME_H

#include <string>
#include <string_view>
#include <vector>

namespace omnibal::config {

/// The one of `names` that takes the fewest letters to add, leave out, replace or swap with the
/// next one; of equals the first. Empty if there are none. Capitals and `_` in place of `-` cost
/// nothing.
std::string nearestName(std::string_view name, const std::vector<std::string> &names);

} // namespace omnibal::config
#endif // TOOLS_CONFIG_NEARESTNAME_H
