//===- LoweredRun.cpp --------------------------------------------------------------------===//
#include "test/unit/passes/lower/LoweredRun.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "passes/layers/Passes.h"
#include "passes/lower/codegen/llvm/ToolRun.h"
#include "test/lib/GpuEmulation.h"
#include "test/lib/TestPasses.h"
#include "test/support/FunctionRun.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

using namespace mlir;

namespace omnibal::test {
namespace {

/// Values of the micro-batch: two samples, some rows without target, some image rows.
HostTensor batchValue(const std::string &name, ArrayRef<int64_t> shape, Type type, int64_t tiles,
                      int64_t tokens) {
  HostTensor tensor(type, shape);
  int64_t first = tokens / 3;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = 0;
    if (name == "positions")
      value = i < first ? i : i - first;
    else if (name == "cu_seqlens")
      value = i == 0 ? 0 : i == 1 && tokens > 1 ? first : tokens;
    else if (name == "image_rows")
      value = i % 3 == 1 && i / 3 < 2 * tiles ? i / 3 : -1;
    else if (name == "targets")
      value = i % 4 == 0 ? -1 : (i * 5) % 7;
    else
      value = (i * 3) % 7;
    tensor.set(i, value);
  }
  return tensor;
}

} // namespace

struct LoweredModule::State {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, lower::LoweredFunction> functions;
  LoadedKernels kernels;

  struct Run {
    std::vector<std::vector<char>> formals;    ///< as they are at the end
    SmallVector<HostTensor> arguments, before; ///< inputs; gradients before the run
    llvm::StringMap<HostTensor> batch;
  };
  /// Random inputs, then all calls.
  Run run(const std::string &name, int64_t tiles, int64_t tokens, int threads, unsigned seed);
};

LoweredModule::LoweredModule() : state(std::make_unique<State>()) {
  state->context.loadDialect<OmnibalDialect, func::FuncDialect>();
}

LoweredModule::LoweredModule(const std::string &text, int64_t tilesCap, int64_t tokensCap,
                             const std::string &target, const std::string &compute)
    : LoweredModule() {
  state->module = parseSourceString<ModuleOp>(text, &state->context);
  lower(tilesCap, tokensCap, target, compute);
}

LoweredModule LoweredModule::fromLayers(const std::string &file, const std::string &remat,
                                        int64_t tilesCap, int64_t tokensCap,
                                        const std::string &target, const std::string &compute) {
  LoweredModule result;
  OwningOpRef<ModuleOp> &module = result.state->module;
  module = parseSourceFile<ModuleOp>(file, &result.state->context);
  PassManager passes(&result.state->context);
  passes.addPass(createAttachLoss());
  passes.addPass(test::createSelectRemat(remat));
  passes.addPass(createMaterializeLayers());
  if (!module || failed(passes.run(*module)))
    throw std::runtime_error("no functions from " + file);
  for (auto layer : module->getOps<LayerFnOp>())
    lower::layOutSavedValues(layer);
  result.lower(tilesCap, tokensCap, target, compute);
  return result;
}

std::vector<std::string> LoweredModule::functions() const {
  std::vector<std::string> names;
  for (const auto &[name, lowered] : state->functions)
    names.push_back(name);
  if (names.empty()) // what is checked of each of them would be checked of nothing
    throw std::runtime_error("the test's module has no functions");
  return names;
}

void LoweredModule::lower(int64_t tilesCap, int64_t tokensCap, const std::string &target,
                          const std::string &compute) {
  if (!state->module || failed(verify(*state->module)))
    throw std::runtime_error("the test's module is not valid");
  lower::KernelLibrary kernels(&state->context, target == "cuda");
  lower::LoweringOptions options;
  options.target = target;
  options.compute = compute;
  options.tilesCap = tilesCap;
  options.tokensCap = tokensCap;
  for (auto fn : state->module->getOps<func::FuncOp>()) {
    if (fn.getName() == "main")
      continue;
    auto lowered = lower::lowerFunction(fn, kernels, options);
    if (failed(lowered))
      throw std::runtime_error("lowering failed: " + fn.getName().str());
    state->functions[fn.getName().str()] = std::move(*lowered);
  }
  if (target == "cuda") {
    auto ptx = kernels.compileToPtx();
    if (failed(ptx))
      throw std::runtime_error("no PTX of the kernels");
    ptxText = *ptx;
  }
  const lower::KernelConversion emulation = test::emulateKernels;
  auto bytes = kernels.compileSharedObject("x86-64-v3", target == "cuda" ? &emulation : nullptr);
  if (failed(bytes))
    throw std::runtime_error("compiling the kernels failed");
  libraryBytes = *bytes;
  if (std::string error = state->kernels.load(*bytes); !error.empty())
    throw std::runtime_error(error);
}

LoweredModule::~LoweredModule() = default;

const rt::Function &LoweredModule::function(const std::string &name) const {
  return state->functions.at(name).function;
}

int LoweredModule::count(const std::string &name, const std::string &kernel) const {
  int number = 0;
  for (const rt::KernelCall &call : function(name).calls)
    number += call.kernel == kernel;
  return number;
}

LoweredModule::State::Run LoweredModule::State::run(const std::string &name, int64_t tiles,
                                                    int64_t tokens, int threads, unsigned seed) {
  const lower::LoweredFunction &lowered = functions.at(name);
  const rt::Function &function = lowered.function;
  auto fn = module->lookupSymbol<func::FuncOp>(name);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Run run;
  size_t arguments = fn.getNumArguments(), results = fn.getNumResults(), constants = 0;
  for (int i = 0; i < function.formals; ++i) {
    const rt::Buffer &buffer = function.buffers[i];
    SmallVector<int64_t> sizes = sizesOf(buffer, tiles, tokens);
    Type type = Float32Type::get(&context);
    if (buffer.dtype == rt::DType::I32)
      type = IntegerType::get(&context, 32);
    HostTensor tensor(type, sizes);
    auto fill = [&] {
      for (int64_t k = 0; k < tensor.size(); ++k)
        tensor.set(k, tensor.isFloat() ? normal(random) : static_cast<double>(random() % 5));
    };
    size_t number = i;
    if (number < arguments) {
      fill();
      run.arguments.push_back(tensor);
    } else if (number < arguments + results) {
      if (buffer.role == rt::Role::ParameterGrad)
        fill();
      else
        std::fill(tensor.floats.begin(), tensor.floats.end(), NAN);
      run.before.push_back(tensor);
    } else if (buffer.role == rt::Role::Batch) {
      tensor = batchValue(buffer.name, sizes, type, tiles, tokens);
      run.batch[buffer.name] = tensor;
    } else {
      const std::string &data = lowered.constants[constants++].bytes;
      run.formals.emplace_back(data.begin(), data.end());
      continue;
    }
    run.formals.push_back(toBytes(tensor, buffer.dtype));
  }

  if (std::string error = runFunction(function, run.formals, kernels, tiles, tokens, threads);
      !error.empty())
    throw std::runtime_error(name + ": " + error);
  return run;
}

void LoweredModule::check(const std::string &name, int64_t tiles, int64_t tokens, double tolerance,
                          int threads, unsigned seed) {
  SCOPED_TRACE(name + " V=" + std::to_string(tiles) + " N=" + std::to_string(tokens));
  State::Run run = state->run(name, tiles, tokens, threads, seed);
  auto fn = state->module->lookupSymbol<func::FuncOp>(name);
  InterpreterOptions options;
  options.tiles = tiles;
  options.tokens = tokens;
  options.float64 = true;
  Interpreter interpreter(options);
  fn.walk([&](BatchValueOp op) { // those that lowering found unused too
    SmallVector<int64_t> sizes;
    auto shape = *getSymbolicShape(cast<RankedTensorType>(op.getType()));
    for (const SymbolicDim &dim : shape)
      sizes.push_back(dim.evaluate(tiles, tokens));
    auto type = cast<RankedTensorType>(op.getType()).getElementType();
    interpreter.batchValues[op.getName()] =
        batchValue(op.getName().str(), sizes, type, tiles, tokens);
  });
  for (auto [i, argument] : llvm::enumerate(run.arguments)) // what the formal holds
    if (argument.isFloat()) {
      rt::DType dtype = function(name).buffers[i].dtype;
      fromBytes(toBytes(argument, dtype).data(), dtype, argument);
    }
  auto expected = interpreter.run(fn, run.arguments);
  ASSERT_TRUE(succeeded(expected));
  const rt::Function &lowered = function(name);
  for (size_t r = 0; r < expected->size(); ++r) {
    const HostTensor &wanted = (*expected)[r];
    size_t formal = run.arguments.size() + r;
    const rt::Buffer &buffer = lowered.buffers[formal];
    bool added = buffer.role == rt::Role::ParameterGrad;
    ASSERT_EQ(wanted.size() * rt::byteSize(buffer.dtype),
              static_cast<int64_t>(run.formals[formal].size()));
    double scale = 1;
    for (int64_t i = 0; i < wanted.size(); ++i)
      scale = std::max(scale, std::abs(wanted.at(i)));
    HostTensor actual = wanted;
    fromBytes(run.formals[formal].data(), buffer.dtype, actual);
    double worst = 0;
    int64_t where = -1;
    for (int64_t i = 0; i < wanted.size(); ++i) {
      double want = wanted.at(i) + (added ? run.before[r].at(i) : 0);
      double got = actual.at(i);
      double error = std::isinf(want) && want == got ? 0 : std::abs(got - want) / scale;
      if (!(error <= worst)) {
        worst = std::isnan(error) ? INFINITY : error;
        where = i;
      }
    }
    EXPECT_LE(worst, tolerance) << "result " << r << " (" << buffer.name << ") element " << where
                                << ": got " << (where < 0 ? 0 : actual.at(where)) << ", expected "
                                << (where < 0 ? 0 : wanted.at(where));
  }
}

std::string LoweredModule::results(const std::string &name, int64_t tiles, int64_t tokens,
                                   int threads) {
  State::Run run = state->run(name, tiles, tokens, threads, 1);
  std::string all;
  for (size_t i = run.arguments.size(); i < run.formals.size(); ++i)
    all.append(run.formals[i].begin(), run.formals[i].end());
  return all;
}

std::string assemblePtx(const std::string &text) {
  const char *home = std::getenv("CUDA_HOME");
  std::string ptxas;
  for (const std::string &folder : {std::string(home ? home : ""), std::string("/usr/local/cuda")})
    if (ptxas.empty() && std::filesystem::exists(folder + "/bin/ptxas"))
      ptxas = folder + "/bin/ptxas";
  if (ptxas.empty()) {
    std::fputs("notice: no ptxas (CUDA_HOME, /usr/local/cuda): PTX is not assembled\n", stderr);
    return "";
  }
  lower::TemporaryFolder folder;
  MLIRContext context;
  std::string said;
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &d) { said += d.str() + "\n"; });
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  if (succeeded(folder.write(*module, "k.ptx", text)))
    for (const char *arch : {"80", "90", "100"})
      (void)lower::runTool(*module, folder, "assembling", ptxas,
                           {std::string("-arch=sm_") + arch, "-O1", "--warning-as-error",
                            folder.file("k.ptx"), "-o", folder.file("k.cubin")},
                           "k.cubin");
  return said;
}

} // namespace omnibal::test
