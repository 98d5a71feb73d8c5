//===- TinyModes.h - The tiny program with several train modes ----------------------------===//
#ifndef TEST_UNIT_RUNTIME_PROGRAM_TINYMODES_H
#define TEST_UNIT_RUNTIME_PROGRAM_TINYMODES_H

#include "test/unit/runtime/program/TinyProgram.h"
#include <span>

namespace omnibal::rt {

/// Joins programs of one train mode each, whose caps ascend and which have the same parameters;
/// evaluation is the last one's. The modes' names are "G0", "G1", ...
Program tinyModes(std::span<const TinyOptions> modes);

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_PROGRAM_TINYMODES_H
