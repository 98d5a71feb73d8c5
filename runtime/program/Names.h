//===- Names.h - The words of the program's enumerations ---------------------------------===//
#ifndef RUNTIME_PROGRAM_NAMES_H
#define RUNTIME_PROGRAM_NAMES_H

#include "runtime/program/Program.h"
#include <optional>
#include <string>
#include <string_view>

namespace omnibal::rt {

const char *nameOf(Role role);
const char *nameOf(Space space);
const char *nameOf(ActionKind kind);
const char *nameOf(Interpolation interpolation);
/// As flags and files call it: "adamw", "lion", "sgd", "muon".
const char *nameOf(OptimizerKind kind);
/// "stage", "replica".
const char *nameOf(RankOrder order);
/// "micro-batch 3", "part 1 of micro-batch 3".
std::string nameOf(Unit unit);

/// The value of that name; empty if there is none.
template <typename E> std::optional<E> fromName(std::string_view name);

/// "3", "V", "64 + 1025 V + N".
std::string toString(const Extent &extent);
/// "[N, 96]".
std::string toString(const std::vector<Extent> &shape);
std::string toString(const std::vector<int64_t> &shape);
/// "1.50 MB" (10^6 bytes); exact below 10 kB.
std::string bytesToString(int64_t bytes);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_NAMES_H
