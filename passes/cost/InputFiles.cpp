//===- InputFiles.cpp --------------------------------------------------------------------===//
#include "passes/cost/InputFiles.h"

namespace omnibal::cost {
namespace {

/// Returns what `read` makes of the file, from `known` where it was read before.
template <typename T, typename F>
const rt::Result<T> &once(std::map<std::string, rt::Result<T>> &known, const std::string &path,
                          F read) {
  auto found = known.find(path);
  return found != known.end() ? found->second : known.emplace(path, read(path)).first->second;
}

} // namespace

rt::Result<planner::ClusterFile> InputFiles::cluster(const std::string &path) {
  return once(clusters, path, planner::readClusterFile);
}

rt::Result<Calibration> InputFiles::calibrations(std::span<const std::string> paths,
                                                 const std::string &target,
                                                 const std::string &compute) {
  Calibration all;
  for (const std::string &path : paths) {
    OMNIBAL_ASSIGN_OR_RETURN(Calibration table, once(tables, path, readCalibration));
    if (!target.empty() && !table.target.empty() &&
        (table.target != target || table.compute != compute))
      return rt::invalid(path + ": these are times of a program for target " + table.target +
                         " in " + table.compute + ", but this one is for target " + target +
                         " in " + compute + "; calibrate one compiled with --target " + target +
                         " --dtype " + compute);
    if (&path == &paths.front())
      all = std::move(table);
    else
      all.add(table);
  }
  return all;
}

} // namespace omnibal::cost
