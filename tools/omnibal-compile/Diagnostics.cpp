//===- Diagnostics.cpp -------------------------------------------------------------------===//
#include "tools/omnibal-compile/Diagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::compile {
namespace {

/// "node NAME (in MODULE): " of the first named location, empty without one.
std::string whereText(Location location) {
  std::string text;
  location->walk([&](Location part) {
    auto name = dyn_cast<NameLoc>(part);
    if (!name)
      return WalkResult::advance();
    text = "node " + name.getName().str();
    if (auto module = dyn_cast<NameLoc>(name.getChildLoc()); module && !module.getName().empty())
      text += " (in " + module.getName().str() + ")";
    text += ": ";
    return WalkResult::interrupt();
  });
  return text;
}

const char *severityText(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  return "";
}

} // namespace

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, std::string tool, std::string file)
    : handler(&context, [tool = std::move(tool), file = std::move(file)](Diagnostic &diagnostic) {
        auto print = [&](Diagnostic &part, const char *indent) {
          llvm::errs() << indent << tool << ": " << severityText(part.getSeverity()) << ": ";
          // Without a location it is about another file than the model, which the message names.
          if (!isa<UnknownLoc>(part.getLocation()))
            llvm::errs() << file << ": " << whereText(part.getLocation());
          llvm::errs() << part.str() << "\n";
        };
        print(diagnostic, "");
        for (Diagnostic &note : diagnostic.getNotes())
          print(note, "  ");
        return success();
      }) {}

} // namespace omnibal::compile
