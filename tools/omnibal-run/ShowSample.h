//===- ShowSample.h - omnibal-run --show-sample ------------------------------------------===//
#ifndef TOOLS_OMNIBAL_RUN_SHOWSAMPLE_H
#define TOOLS_OMNIBAL_RUN_SHOWSAMPLE_H

#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include "runtime/training/session/RunOptions.h"
#include <ostream>

namespace omnibal::rt {

/// Prints what a run of the program reads of the sample `options.showSample`: which tokens are
/// placeholders of pictures, which have a label, and what its pictures become. With
/// `options.output`, a folder, the pictures are written there as KEY.0.png, KEY.1.png, ... from the
/// 8-bit pixels that were decoded. An error, after what could be printed, if a run would refuse the
/// sample.
Status showSample(const Program &program, const RunOptions &options, std::ostream &out);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_RUN_SHOWSAMPLE_H
