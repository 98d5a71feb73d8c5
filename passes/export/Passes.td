//===- Passes.td - From form C to a program directory ------------------------------------===//
#ifndef PASSES_EXPORT_PASSES_TD
#define PASSES_EXPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExportProgramPass : Pass<"omnibal-export-program", "::mlir::ModuleOp"> {
  let summary = "Writes the program directory of a module with its schedule";
  let description = [{
    Input: form C with stages and messages (after omnibal-materialize-schedule, or written by hand).
    Lowers every layer function, lays out the memory of every stage and writes `output`. The module
    stays as it is. Fails where a message or a stage is missing, on a schedule that the program's
    verifier refuses (docs/program.md), and where the directory cannot be written.
  }];
  let options = [
    Option<"output", "output", "std::string", "\"\"", "Program directory to write">,
    Option<"model", "model", "std::string", "\"\"", "Name of the model, for display">,
    Option<"cpu", "cpu", "std::string", "\"x86-64-v3\"", "Processor that generated code is for">,
    Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
    Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">
  ];
}

#endif // PASSES_EXPORT_PASSES_TD
