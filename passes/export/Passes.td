//===- Passes.td - From form C to a program directory ------------------------------------===//
#ifndef PASSES_EXPORT_PASSES_TD
#define PASSES_EXPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

defvar programOptions = [
  Option<"model", "model", "std::string", "\"\"", "Name of the model, for display">,
  Option<"target", "target", "std::string", "\"host\"", "host or cuda">,
  Option<"compute", "compute", "std::string", "\"\"",
         "float32 or bfloat16; empty: float32 on host, bfloat16 on cuda">,
  Option<"cpu", "cpu", "std::string", "\"x86-64-v3\"", "Processor that generated code is for">,
  Option<"gpuCode", "gpu-code", "std::string", "\"device\"",
         "How code is made of GPU kernels: device, or a way that the build registers">,
  Option<"subMicrobatches", "sub-microbatches", "bool", "true",
         "Whether plans of single steps may divide micro-batches by their tiles">,
  Option<"tiles", "tiles", "int64_t", "1", "Largest number of tiles of a micro-batch">,
  Option<"tokens", "tokens", "int64_t", "128", "Largest number of tokens of a micro-batch">
];

def LayOutProgramPass : Pass<"omnibal-lay-out-program", "::mlir::ModuleOp"> {
  let summary = "Find out how much memory the program of a module needs";
  let description = [{
    Input: form C with stages and messages (after omnibal-materialize-schedule, or written by hand).
    Lowers a copy of every layer function and lays out the memory of every stage. Writes
    `omnibal.arena` and `omnibal.workspace` (device memory beside the arena) on the module, bytes by
    stage; the rest of it stays as it is. An omnibal-export-program that the same pipeline was built
    with takes the program over.
  }];
  let options = programOptions;
}

def ExportProgramPass : Pass<"omnibal-export-program", "::mlir::ModuleOp"> {
  let summary = "Writes the program directory of a module with its schedule";
  let description = [{
    Input: as omnibal-lay-out-program, whose program it writes to `output`, with the generated code
    compiled; where that has not run, it does the same first. The module stays as it is. Fails where
    a message or a stage is missing, on a schedule that the program's verifier refuses
    (docs/program.md), and where the directory cannot be written.
  }];
  let options = !listconcat([
    Option<"output", "output", "std::string", "\"\"", "Program directory to write">,
    Option<"cudaToolkit", "cuda-toolkit", "std::string", "\"\"",
           "Folder of ptxas and fatbinary; empty: found">
  ], programOptions);
}

#endif // PASSES_EXPORT_PASSES_TD
