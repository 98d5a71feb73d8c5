//===- Steps.h - Which samples make up each step, from files --------------------------------===//
#ifndef RUNTIME_BATCHING_STEPS_STEPS_H
#define RUNTIME_BATCHING_STEPS_STEPS_H

#include "runtime/batching/steps/StepSource.h"
#include "runtime/support/Status.h"
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace omnibal::rt {

/// Number of the sample with a key, -1 if there is none.
using FindSample = std::function<int64_t(std::string_view key)>;

/// What a length group, or a line of a steps file, must fit: a train mode of the program.
struct ModeUse {
  std::string name;
  int64_t tilesCap = 0, tokensCap = 0;
  int32_t degree = 1;
  int64_t microbatches = 1;
};

/// Reads steps.jsonl, which has one {"groups": [[key, ...], ...]} per line, each with M * D groups.
/// Empty lines are skipped. Every epoch is the whole file. Errors name file and line. Where there
/// are several `modes`, a line also says its mode, by name or number, whose M counts.
Result<std::shared_ptr<StepSource>> readStepsFile(const std::string &path,
                                                  const StepSource::Layout &layout,
                                                  const FindSample &find,
                                                  const std::vector<ModeUse> &modes = {});

/// What the program and the data set of a run say about its samples.
struct BatchesUse {
  StepSource::Layout layout;
  int64_t tilesCap = 0, tokensCap = 0;     ///< of the program, the largest of its modes
  std::vector<ModeUse> modes;              ///< where it has several
  int64_t samples = 0;                     ///< of the data set
  std::function<int64_t(int64_t)> tilesOf; ///< of a sample; may be empty
  bool units = false; ///< what tilesOf counts: units of pictures of their own sizes, or pictures
  /// Sum over the sample's pictures of their squared numbers of units; may be empty.
  std::function<int64_t(int64_t)> squaredTilesOf;
  std::function<std::string(int64_t)> nameOf; ///< of a sample, for messages; may be empty
};

struct Composition; // BatchesFolder.h

/// Does readGroups() for a folder with lengths, and checks ranks and caps against the program and
/// every group's load against the caps.
Result<Batches> readCheckedGroups(const std::string &folder, const Composition &composition,
                                  const BatchesUse &use);

/// Opens the folder of omnibal-batch, which has as many length groups as the program has train
/// modes. Where there are several they belong together by name. If it has lengths.npy and the
/// settings in batches.json, epochs after the first are balance() of them with the numbers of these
/// epochs; otherwise the groups repeat. These checks are made before anything runs: ranks and caps
/// against the program, numbers, tiles and count of the samples against the data set, and the load
/// of every group against the caps.
Result<std::shared_ptr<StepSource>> openBatches(const std::string &folder, const BatchesUse &use);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_STEPS_STEPS_H
