//===- TarIndex.h - Where the members of a tar file lie ----------------------------------===//
#ifndef RUNTIME_DATA_TARINDEX_H
#define RUNTIME_DATA_TARINDEX_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

struct TarMember {
  std::string name;
  int64_t offset = 0, bytes = 0; ///< of the contents, in the tar file
};

/// The regular files of an uncompressed tar, in order. A truncated or damaged tar, and one without
/// its end-of-archive marker, is DataLoss.
Result<std::vector<TarMember>> indexTar(const std::string &path);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_TARINDEX_H
