//===- InputFiles.h - What several passes read, parsed once -------------------------------===//
#ifndef PASSES_COST_INPUTFILES_H
#define PASSES_COST_INPUTFILES_H

#include "passes/cost/Calibration.h"
#include "runtime/planner/json/ClusterJson.h"
#include <map>
#include <span>
#include <string>

namespace omnibal::cost {

/// The cluster's file and the tables of calibrations that the passes of one pipeline share.
class InputFiles {
public:
  rt::Result<planner::ClusterFile> cluster(const std::string &path);
  /// Returns several tables as one: the first that knows a function or a link counts. A table of a
  /// program for another target or in another precision is an error, since none of its times would
  /// be found; `target` empty: any.
  rt::Result<Calibration> calibrations(std::span<const std::string> paths,
                                       const std::string &target = "",
                                       const std::string &compute = "");

private:
  std::map<std::string, rt::Result<planner::ClusterFile>> clusters; ///< by path
  std::map<std::string, rt::Result<Calibration>> tables;            ///< by path
};

} // namespace omnibal::cost
#endif // PASSES_COST_INPUTFILES_H
