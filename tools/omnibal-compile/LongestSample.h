//===- LongestSample.h - What one micro-batch must hold at least ----------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_LONGESTSAMPLE_H
#define TOOLS_OMNIBAL_COMPILE_LONGESTSAMPLE_H

#include "passes/cost/MicrobatchLoad.h"
#include "runtime/support/Status.h"
#include <string>

namespace omnibal::compile {

/// The most tiles and the most tokens of a sample in a table of lengths (CSV).
rt::Result<cost::MicrobatchLoad> longestSample(const std::string &lengths);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_LONGESTSAMPLE_H
