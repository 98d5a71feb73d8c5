//===- Formats.h - Names and versions of the files that the tools exchange -------------------===//
//
// A file says in its first field which format it is. A reader takes the version that stands here
// and refuses others by name; `--version` prints those that a tool reads or writes.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_FORMATS_H
#define RUNTIME_SUPPORT_FORMATS_H

#include <initializer_list>
#include <string>

namespace omnibal::rt::formats {

inline constexpr const char *program = "omnibal.program/1";
/// A program whose steps are planned one by one; it holds what plans are made from.
inline constexpr const char *stepProgram = "omnibal.program/2";
/// A program with several train modes.
inline constexpr const char *modesProgram = "omnibal.program/3";
inline constexpr const char *calibration = "omnibal.calibration/1";
inline constexpr const char *planProblem = "omnibal.plan-problem/1";
inline constexpr const char *planChoice = "omnibal.plan-choice/1";
inline constexpr const char *plan = "omnibal.plan/1";
inline constexpr const char *planExport = "omnibal.plan-export/1";
inline constexpr const char *stepProblem = "omnibal.step-problem/1";
inline constexpr const char *stepPlan = "omnibal.step-plan/1";
inline constexpr const char *algorithms = "omnibal.algorithms/1";
/// Log-probabilities of pairs of answers by the model which training begins with.
inline constexpr const char *references = "omnibal.references/1";
/// The version in a checkpoint's manifest.
inline constexpr int checkpoint = 1;

/// What `--version` prints: "TOOL VERSION", and the formats in a line of their own.
inline std::string versionText(const std::string &tool, const std::string &version,
                               std::initializer_list<std::string> used) {
  std::string text = tool + " " + version;
  const char *before = "\nfile formats: ";
  for (const std::string &format : used) {
    text += before + format;
    before = ", ";
  }
  return text;
}

} // namespace omnibal::rt::formats
#endif // RUNTIME_SUPPORT_FORMATS_H
