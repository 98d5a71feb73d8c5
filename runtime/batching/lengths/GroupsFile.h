//===- GroupsFile.h - omnibal.length-groups/1 -----------------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H
#define RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

/// Reads candidates or chosen length groups. Unknown keys, values out of range, ranks that are not
/// replicas / degree, and caps that do not ascend are errors that name file and field.
Result<LengthGroups> readLengthGroups(const std::string &path);
Result<LengthGroups> parseLengthGroups(const std::string &text, const std::string &where);

/// The object of the file.
nlohmann::ordered_json describe(const LengthGroups &groups);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_GROUPSFILE_H
