//===- AdapterText.h - What adapters a program has -------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_ADAPTERTEXT_H
#define TOOLS_OMNIBAL_COMPILE_ADAPTERTEXT_H

#include "runtime/program/Program.h"
#include <string>

namespace omnibal::compile {

/// A line with their number and how many of the model's parameters train; "" without adapters.
std::string adapterText(const rt::Program &program);
/// A line with what quantized weights take; "" without any.
std::string quantizedText(const rt::Program &program);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_ADAPTERTEXT_H
