//===- Printer.h - A program as text for people ------------------------------------------===//
#ifndef RUNTIME_PROGRAM_PRINTER_H
#define RUNTIME_PROGRAM_PRINTER_H

#include "runtime/program/Program.h"
#include <string>

namespace omnibal::rt {

/// Prints the settings, the kernel calls of every function with shapes in V and N, and for every
/// stage its memory, parameters and, for every mode, chunks, transfers and actions.
std::string printProgram(const Program &program);

/// "42 linear layers of rank 16, alpha 32, scale 2".
std::string describe(const Adapters &adapters);

std::string printFunction(const Function &function);
std::string printStage(const Program &program, const Stage &stage);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_PRINTER_H
