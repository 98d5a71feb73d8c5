//===- LengthGroupOptions.h - What length groups say in place of options ----------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_LENGTHGROUPOPTIONS_H
#define TOOLS_OMNIBAL_COMPILE_LENGTHGROUPOPTIONS_H

#include "tools/omnibal-compile/Options.h"

namespace omnibal::compile {

/// Which of these stand on the command line.
struct GivenOptions {
  bool tiles = false, tokens = false, microbatches = false, schedule = false, remat = false;
};

/// Reads the length groups of --batches, if it has some, and takes caps and micro-batches from
/// them. Refuses options that say something else, caps that nothing says, and what programs with
/// several training modes cannot have.
rt::Status applyLengthGroups(Options &options, const GivenOptions &given);

/// The file of training mode `number`, where each has one: FILE.json, FILE.1.json, FILE.2.json ...
std::string fileOfMode(const std::string &path, size_t number);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_LENGTHGROUPOPTIONS_H
