//===- Sources.h - Where the samples of a data set come from ----------------------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_SOURCES_H
#define RUNTIME_TRAINING_EVALUATION_SOURCES_H

#include <string>
#include <vector>

namespace omnibal::rt {

/// The folders that the shards lie in, each a source.
struct Sources {
  std::vector<std::string> names; ///< the ends of the folders' paths by which they differ
  std::vector<size_t> ofShards;   ///< indices into `names`
};
Sources sourcesOf(const std::vector<std::string> &shards);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_SOURCES_H
