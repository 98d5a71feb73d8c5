//===- HostRun.cpp - Graphs with static shapes on the host backend -----------------------===//
#include "test/e2e/node_tests/HostRun.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/lower/Lowering.h"
#include "passes/specialize/Specialize.h"
#include "test/support/FunctionRun.h"

using namespace mlir;

namespace omnibal::test {

struct HostRuns::State {
  explicit State(MLIRContext &context) : kernels(&context) {}
  lower::KernelLibrary kernels;
  std::vector<lower::LoweredFunction> graphs;
  LoadedKernels loaded;
};

HostRuns::HostRuns(MLIRContext &context) : state(std::make_unique<State>(context)) {}

HostRuns::~HostRuns() = default;

FailureOr<size_t> HostRuns::add(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  SpecializeOptions options;
  options.staticInputs = true;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(main.getArgument(i).getType());
    options.inputDims[main.getArgAttrOfType<StringAttr>(i, "omnibal.input")] =
        llvm::SmallVector<int64_t>(type.getShape());
  }
  if (failed(specialize(main, options)))
    return failure();
  Builder builder(module.getContext());
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    main.setArgAttr(i, "omnibal.role", builder.getStringAttr("input"));
    main.setArgAttr(i, "omnibal.index", builder.getI64IntegerAttr(i));
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    main.setResultAttr(i, "omnibal.role", builder.getStringAttr("output"));
    main.setResultAttr(i, "omnibal.index", builder.getI64IntegerAttr(i));
  }
  FailureOr<lower::LoweredFunction> lowered =
      lower::lowerFunction(main, state->kernels, lower::LoweringOptions());
  if (failed(lowered))
    return failure();
  state->graphs.push_back(std::move(*lowered));
  return state->graphs.size() - 1;
}

std::string HostRuns::compile() {
  FailureOr<std::string> bytes = state->kernels.compileSharedObject("x86-64-v3");
  if (failed(bytes))
    return "the kernels do not compile";
  return state->loaded.load(*bytes);
}

std::string HostRuns::run(size_t graph, const std::vector<HostTensor> &inputs,
                          std::vector<HostTensor> &results) {
  const lower::LoweredFunction &lowered = state->graphs[graph];
  const rt::Function &function = lowered.function;
  std::vector<std::vector<char>> formals;
  size_t constants = 0;
  for (size_t i = 0; i < size_t(function.formals); ++i) {
    const rt::Buffer &buffer = function.buffers[i];
    if (i >= inputs.size() + results.size()) {
      const std::string &data = lowered.constants[constants++].bytes;
      formals.emplace_back(data.begin(), data.end());
      continue;
    }
    int64_t elements = elementCount(sizesOf(buffer, 0, 0));
    const HostTensor &tensor = i < inputs.size() ? inputs[i] : results[i - inputs.size()];
    if (tensor.size() != elements)
      return "operand " + std::to_string(i) + " has another size than its buffer";
    // Results start as bytes that no kernel writes, so that a missing one shows.
    formals.push_back(i < inputs.size()
                          ? toBytes(tensor, buffer.dtype)
                          : std::vector<char>(elements * rt::byteSize(buffer.dtype), '\xab'));
  }
  if (std::string error = runFunction(function, formals, state->loaded, 0, 0, 1); !error.empty())
    return error;
  for (size_t i = 0; i < results.size(); ++i)
    fromBytes(formals[inputs.size() + i].data(), function.buffers[inputs.size() + i].dtype,
              results[i]);
  return {};
}

} // namespace omnibal::test
