#include "runtime/batching/Plan.h"
#include "runtime/batching/Isf.h"

namespace omnibal::rt {

Grouping planGroups(const SampleLengths &lengths, Caps caps, int32_t ranks, Random random,
                    Bound &bound) {
  bound = simpleBound(Histogram(lengths, caps), caps);
  std::vector<uint32_t> samples;
  for (int64_t i = 0; i < lengths.size(); ++i)
    if (lengths.tiles[i] <= caps.tiles && lengths.tokens[i] <= caps.tokens)
      samples.push_back(static_cast<uint32_t>(i));
  return isfGroups(lengths, std::move(samples), caps, random);
}

} // namespace omnibal::rt
