#include "runtime/batching/io/CheckBatches.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

Status broken(const std::string &what) {
  return {Code::Internal, "the batches are wrong: " + what + "; please report this"};
}

std::string numbered(const char *thing, int64_t number) {
  return std::string(thing) + " " + std::to_string(number);
}

class Checker {
public:
  Checker(const SampleLengths &lengths, const BatchOptions &options, const Batches &batches)
      : lengths(lengths), options(options), batches(batches),
        seen(static_cast<size_t>(lengths.size())) {}

  Status check() {
    OMNIBAL_RETURN_IF_ERROR(checkShape());
    for (int64_t group = 0; group < batches.groups(); ++group)
      OMNIBAL_RETURN_IF_ERROR(checkGroup(group));
    return checkSamples();
  }

private:
  bool isOversize(int64_t sample) const {
    return lengths.tiles[sample] > options.tilesCap || lengths.tokens[sample] > options.tokensCap;
  }

  Status checkShape() const {
    if (batches.offsets.empty() || batches.offsets.front() != 0 ||
        batches.offsets.back() != static_cast<int64_t>(batches.samples.size()))
      return broken("the offsets do not span the samples");
    int64_t emptyGroup = -1, largest = 0, empty = 0;
    for (int64_t group = 0; group < batches.groups(); ++group) {
      int64_t size = batches.offsets[group + 1] - batches.offsets[group];
      if (size < 0)
        return broken(numbered("group", group) + " ends before it begins");
      largest = std::max(largest, size);
      if (size == 0) {
        emptyGroup = group;
        ++empty;
      }
    }
    if (empty >= options.ranks || (empty > 0 && largest > 1))
      return broken(numbered("group", emptyGroup) + " is empty");
    if (batches.groups() % options.ranks != 0)
      return broken(std::to_string(batches.groups()) + " groups are no multiple of " +
                    std::to_string(options.ranks) + " ranks");
    return Status::ok();
  }

  Status checkGroup(int64_t group) {
    int64_t begin = batches.offsets[group], end = batches.offsets[group + 1];
    int64_t tiles = 0, tokens = 0;
    for (int64_t i = begin; i < end; ++i) {
      int64_t sample = batches.samples[i];
      if (sample < 0 || sample >= lengths.size())
        return broken(numbered("sample", sample) + " does not exist");
      if (seen[sample])
        return broken(numbered("sample", sample) + " occurs twice");
      seen[sample] = true;
      tiles += lengths.tiles[sample];
      tokens += lengths.tokens[sample];
    }
    if ((tiles > options.tilesCap || tokens > options.tokensCap) && end - begin > 1)
      return broken(numbered("group", group) + " is above the caps");
    return Status::ok();
  }

  Status checkSamples() const {
    size_t listed = 0;
    for (int64_t sample = 0; sample < lengths.size(); ++sample) {
      bool oversize = isOversize(sample);
      if (seen[sample] == (oversize && options.oversize == Oversize::Skip))
        return broken(numbered("sample", sample) +
                      (seen[sample] ? " is not left out" : " is missing"));
      if (!oversize)
        continue;
      if (listed == batches.oversize.size() || batches.oversize[listed] != sample)
        return broken(numbered("sample", sample) + " is over a cap and not listed");
      ++listed;
    }
    if (listed != batches.oversize.size())
      return broken(numbered("sample", batches.oversize[listed]) + " is listed as over a cap");
    return Status::ok();
  }

  const SampleLengths &lengths;
  const BatchOptions &options;
  const Batches &batches;
  std::vector<bool> seen;
};

} // namespace

Status checkBatches(const SampleLengths &lengths, const BatchOptions &options,
                    const Batches &batches) {
  return Checker(lengths, options, batches).check();
}

} // namespace omnibal::rt
