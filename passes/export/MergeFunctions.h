//===- MergeFunctions.h - One list of functions for all training modes ------------------------===//
#ifndef PASSES_EXPORT_MERGEFUNCTIONS_H
#define PASSES_EXPORT_MERGEFUNCTIONS_H

#include "runtime/program/Program.h"

namespace omnibal::exporter {

/// Collects the functions of a program's training modes. A function that is equal to one of an
/// earlier mode, in all but its name, is the same one; other functions get names of their own.
class FunctionList {
public:
  /// Adds a mode's functions and returns their numbers in the list.
  std::vector<int32_t> add(std::vector<rt::Function> functions, size_t trainMode);
  std::vector<rt::Function> take() { return std::move(list); }

private:
  std::vector<rt::Function> list;
};

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_MERGEFUNCTIONS_H
