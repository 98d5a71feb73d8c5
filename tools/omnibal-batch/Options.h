//===- Options.h - The command line of omnibal-batch ----------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_OPTIONS_H
#define TOOLS_OMNIBAL_BATCH_OPTIONS_H

#include "runtime/batching/Balance.h"
#include <string>
#include <vector>

namespace omnibal::rt {

struct ToolOptions {
  std::vector<std::string> inputs; ///< one table, or shards and folders of shards
  std::string output;              ///< empty: nothing is written
  std::string report, cost;
  std::string preprocess; ///< of a model of dynamic resolution
  BatchOptions batching;  ///< without the cost, which is in a file
  bool json = false;
  std::vector<std::string> mix;   ///< FILE=WEIGHT
  std::vector<std::string> mixAt; ///< EPOCH=WEIGHT,WEIGHT,...
  int64_t epochSamples = 0;       ///< of a mix; 0: as many as the data sets have together
  int64_t window = 0;             ///< 0: all samples at once
  bool autoCaps = false;
  double memoryLimitBytes = 0; ///< for --auto; 0: no limit
  int64_t samplesPerStep = 0, tokensPerStep = 0;
  std::string lengthGroups; ///< file or text; empty: one packing length
  int32_t maxGroups = 3;
  double minGain = 0.005;
  int64_t curriculumSteps = 0;
  int32_t curriculumModes = 1;
  bool hbp = false;
  bool ranksGiven = false;
};

/// Fills `options`. Returns true to go on; otherwise `exitCode` is final (help, version, usage).
bool parseCommandLine(int argc, char **argv, ToolOptions &options, int &exitCode);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_OPTIONS_H
