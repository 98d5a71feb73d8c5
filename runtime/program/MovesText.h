//===- MovesText.h - What the parts of a stage hold and send, for people
//-----------------------===//
#ifndef RUNTIME_PROGRAM_MOVESTEXT_H
#define RUNTIME_PROGRAM_MOVESTEXT_H

#include "runtime/program/Program.h"
#include <functional>
#include <string>

namespace omnibal::rt {

/// Nanoseconds of so many rounds of messages that send so many bytes together; a sum has two.
using MoveTime = std::function<int64_t(int64_t rounds, int64_t bytes)>;

/// For every stage the layers of a train mode, equal neighbors as one: which parameters a part has
/// a share of, and what it sends for a full micro-batch, forward and backward; with `timeOf` also
/// how long that takes. What is told is that of the last part, whose share is no smaller than any
/// other. Nothing where a rank runs a micro-batch by itself.
std::string movesText(const Program &program, const std::string &mode, const MoveTime &timeOf = {});

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_MOVESTEXT_H
