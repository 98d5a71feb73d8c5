//===- LongestSample.cpp -------------------------------------------------------------------===//
#include "tools/omnibal-compile/LongestSample.h"
#include "runtime/batching/io/LengthsCsv.h"
#include <algorithm>

namespace omnibal::compile {

rt::Result<cost::MicrobatchLoad> longestSample(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(rt::SampleLengths lengths, rt::readLengthsCsv(path));
  return cost::MicrobatchLoad{*std::max_element(lengths.tiles.begin(), lengths.tiles.end()),
                              *std::max_element(lengths.tokens.begin(), lengths.tokens.end())};
}

} // namespace omnibal::compile
