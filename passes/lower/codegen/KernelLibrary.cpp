//===- KernelLibrary.cpp - Generated kernels become a shared object ----------------------===//
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "passes/lower/codegen/KernelLibraryInternal.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"
#include "passes/lower/codegen/llvm/CodeGeneration.h"
#include "passes/lower/codegen/llvm/ToolRun.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace omnibal::lower {

KernelLibrary::KernelLibrary(MLIRContext *context, bool gpu) : state(std::make_unique<Impl>()) {
  context->loadDialect<LLVM::LLVMDialect, scf::SCFDialect, vector::VectorDialect,
                       arith::ArithDialect, math::MathDialect, func::FuncDialect>();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  state->module = ModuleOp::create(UnknownLoc::get(context));
  if (gpu) {
    prepareGpuContext(context);
    state->gpu = makeGpuModule(*state->module);
  }
}
KernelLibrary::~KernelLibrary() = default;
bool KernelLibrary::empty() const { return state->keys.empty(); }

std::vector<std::string> KernelLibrary::symbols() const {
  std::vector<std::string> names;
  for (const auto &[symbol, key] : state->keys)
    names.push_back(symbol);
  return names;
}

std::string KernelLibrary::resolveCpu(llvm::StringRef cpu) {
  return cpu == "native" ? llvm::sys::getHostCPUName().str() : cpu.str();
}

FailureOr<std::string> KernelLibrary::Impl::add(const FusedKernel &kernel) {
  std::string key = kernel.key();
  auto digest = llvm::SHA1::hash(llvm::arrayRefFromStringRef(key));
  std::string symbol = "fused_" + llvm::toHex(ArrayRef<uint8_t>(digest).take_front(8), true);
  auto [it, isNew] = keys.try_emplace(symbol, key);
  if (!isNew) {
    if (it->second != key)
      return FusedOp(kernel.op).emitOpError("internal error: two generated kernels have the name ")
             << symbol;
    return symbol;
  }
  if (failed(gpu ? emitGpuKernel(kernel, symbol, gpu) : emitFusedKernel(kernel, symbol, *module)))
    return failure();
  return symbol;
}

namespace {

LogicalResult lowerToLLVM(ModuleOp module) {
  if (failed(expandMath(module)))
    return failure();
  PassManager manager(module.getContext());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLoopInvariantCodeMotionPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createUBToLLVMConversionPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  return manager.run(module);
}

std::unique_ptr<llvm::TargetMachine> makeTarget(ModuleOp module, llvm::StringRef cpu,
                                                const llvm::Triple &triple) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    module.emitError("no code generator for ") << triple.str() << ": " << error;
    return nullptr;
  }
  std::string features;
  if (cpu == "native")
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      features += (features.empty() ? "" : ",") + std::string(feature.second ? "+" : "-") +
                  feature.first().str();
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  options.UniqueSectionNames = false;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, KernelLibrary::resolveCpu(cpu), features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

FailureOr<std::string> generateObject(ModuleOp module, llvm::StringRef cpu) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernels");
  if (!code)
    return module.emitError("the generated kernels do not translate to LLVM");
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  auto target = makeTarget(module, cpu, triple);
  if (!target)
    return failure();
  code->setTargetTriple(triple);
  code->setDataLayout(target->createDataLayout());
  bool wide = target->getMCSubtargetInfo()->checkFeatures("+avx512f");
  for (llvm::Function &function : *code)
    if (!function.isDeclaration()) {
      function.addFnAttr("prefer-vector-width", wide ? "512" : "256");
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  return generateCode(module, *code, *target, llvm::CodeGenFileType::ObjectFile,
                      "this target cannot write object files");
}

FailureOr<std::string> link(ModuleOp module, llvm::StringRef object) {
  std::string linker;
  for (const char *name : {"ld", "ld.lld", "ld.lld-22", "mold", "ld.bfd", "ld.gold"})
    if (auto found = llvm::sys::findProgramByName(name)) {
      linker = *found;
      break;
    }
  if (linker.empty())
    return module.emitError("no linker found: install binutils or lld (ld must be on PATH)");
  TemporaryFolder folder;
  if (failed(folder.write(module, "kernels.o", object)))
    return failure();
  return runTool(module, folder, "linking the generated kernels", linker,
                 {"-shared", "--build-id=none", "-z", "noexecstack", "-soname", "kernels.so", "-o",
                  folder.file("kernels.so"), folder.file("kernels.o")},
                 "kernels.so");
}

} // namespace

/// Symbols in order: the bytes do not depend on the order in which kernels were added.
OwningOpRef<ModuleOp> KernelLibrary::Impl::sorted() const {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(ModuleOp(module.get())->clone()));
  auto sort = [](Block *block, auto functions) {
    llvm::sort(functions, [](auto a, auto b) { return a.getName() < b.getName(); });
    for (auto function : functions)
      function->moveBefore(block, block->end());
  };
  sort(copy->getBody(), SmallVector<func::FuncOp>(copy->getOps<func::FuncOp>()));
  for (auto kernels : copy->getOps<gpu::GPUModuleOp>())
    sort(kernels.getBody(), SmallVector<gpu::GPUFuncOp>(kernels.getOps<gpu::GPUFuncOp>()));
  return copy;
}

FailureOr<std::string> KernelLibrary::compileSharedObject(llvm::StringRef cpu,
                                                          const KernelConversion *conversion) {
  OwningOpRef<ModuleOp> module = state->sorted();
  if (cpu != "native" && cpu != "x86-64-v3")
    return module->emitError("unknown target CPU '") << cpu << "': use x86-64-v3 or native";
  if (static_cast<bool>(state->gpu) != (conversion != nullptr))
    return module->emitError("kernels of target cuda, and no others, need a conversion for this "
                             "processor");
  if (conversion) {
    auto converted = (*conversion)(*module);
    if (failed(converted))
      return failure();
    module = std::move(*converted);
  }
  if (failed(lowerToLLVM(*module)))
    return failure();
  auto object = generateObject(*module, cpu);
  if (failed(object))
    return failure();
  return link(*module, *object);
}

FailureOr<rt::GeneratedCode> KernelLibrary::compileForGpu(llvm::StringRef toolkit) {
  OwningOpRef<ModuleOp> module = state->sorted();
  return compileForDevices(*module, toolkit);
}

FailureOr<std::string> KernelLibrary::compileToPtx() {
  OwningOpRef<ModuleOp> module = state->sorted();
  return compilePtx(*module);
}

} // namespace omnibal::lower
