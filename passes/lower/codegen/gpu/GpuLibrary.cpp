//===- GpuLibrary.cpp - Generated kernels for GPUs become a fat binary -------------------===//
#include "passes/lower/codegen/gpu/GpuLibrary.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"
#include "passes/lower/codegen/llvm/CodeGeneration.h"
#include "passes/lower/codegen/llvm/ToolRun.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;

namespace omnibal::lower {
namespace {

constexpr const char *architectures[] = {"80", "90", "100"};

//--- Arithmetic
//---------------------------------------------------------------------------------------

/// Calls an intrinsic of LLVM: every conversion leaves that alone, while gpu-to-nvvm would call
/// libdevice for most functions.
template <typename OpT> struct UseIntrinsic : OpRewritePattern<OpT> {
  UseIntrinsic(MLIRContext *context, StringRef name, bool onlyF32 = false)
      : OpRewritePattern<OpT>(context), name(name), onlyF32(onlyF32) {}
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    if (onlyF32 && !op.getType().isF32())
      return failure();
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr(name), op->getOperands());
    return success();
  }
  StringRef name;
  bool onlyF32;
};

/// 1 / y by the unit that has nothing else: one instruction, where a division takes eight.
struct UseReciprocal : OpRewritePattern<arith::DivFOp> {
  UseReciprocal(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32() || !matchPattern(op.getLhs(), m_OneFloat()))
      return failure();
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr("llvm.nvvm.rcp.approx.ftz.f"), op.getRhs());
    return success();
  }
};

LogicalResult useIntrinsics(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  MLIRContext *context = module.getContext();
  // The device's own approximations, good to two units in the last place.
  patterns.add<UseIntrinsic<arith::DivFOp>>(context, "llvm.nvvm.div.full", true);
  patterns.add<UseIntrinsic<math::RsqrtOp>>(context, "llvm.nvvm.rsqrt.approx.f", true);
  patterns.add<UseReciprocal>(context);
  patterns.add<UseIntrinsic<math::Exp2Op>>(context, "llvm.nvvm.ex2.approx.ftz.f32", true);
  patterns.add<UseIntrinsic<arith::MaxNumFOp>>(context, "llvm.maxnum");
  patterns.add<UseIntrinsic<arith::MinNumFOp>>(context, "llvm.minnum");
  patterns.add<UseIntrinsic<math::AbsFOp>>(context, "llvm.fabs");
  patterns.add<UseIntrinsic<math::CeilOp>>(context, "llvm.ceil");
  patterns.add<UseIntrinsic<math::CopySignOp>>(context, "llvm.copysign");
  patterns.add<UseIntrinsic<math::FloorOp>>(context, "llvm.floor");
  patterns.add<UseIntrinsic<math::FmaOp>>(context, "llvm.fma");
  patterns.add<UseIntrinsic<math::RoundEvenOp>>(context, "llvm.roundeven");
  patterns.add<UseIntrinsic<math::RoundOp>>(context, "llvm.round");
  patterns.add<UseIntrinsic<math::SqrtOp>>(context, "llvm.sqrt");
  patterns.add<UseIntrinsic<math::TruncOp>>(context, "llvm.trunc");
  return applyPatternsGreedily(module, std::move(patterns));
}

/// A function of double numbers would be a call that no library answers.
LogicalResult checkFunctions(ModuleOp module) {
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && !isa<math::AbsIOp>(op))
      result = op->emitError("target cuda has no ")
               << op->getName().stripDialect() << " of " << op->getResult(0).getType()
               << "; export the model in float32";
  });
  return result;
}

LogicalResult lowerToDevice(ModuleOp module) {
  if (failed(expandGpuMath(module)) || failed(expandMath(module)) ||
      failed(expandGpuMath(module)) || failed(useIntrinsics(module)) ||
      failed(checkFunctions(module)))
    return failure();
  PassManager manager(module.getContext());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLoopInvariantCodeMotionPass());
  manager.addPass(createSCFToControlFlowPass());
  OpPassManager &gpu = manager.nest<gpu::GPUModuleOp>();
  gpu.addPass(createConvertGpuOpsToNVVMOps());
  gpu.addPass(createConvertMathToLLVMPass()); // math.absi
  gpu.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  return manager.run(module);
}

//--- PTX
//---------------------------------------------------------------------------------------

std::unique_ptr<llvm::TargetMachine> makeTarget(ModuleOp module, const llvm::Triple &triple) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    module.emitError("this LLVM has no code generator for NVIDIA GPUs: ") << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, KernelLibrary::oldestGpu, "+ptx80", options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

FailureOr<std::string> generatePtx(ModuleOp module) {
  llvm::LLVMContext context;
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!code)
    return module.emitError("the generated kernels do not translate to LLVM");
  llvm::Triple triple("nvptx64-nvidia-cuda");
  auto target = makeTarget(module, triple);
  if (!target)
    return failure();
  code->setTargetTriple(triple);
  code->setDataLayout(target->createDataLayout());
  for (llvm::Function &function : *code)
    if (function.isDeclaration() && !function.isIntrinsic())
      return module.emitError("internal error: generated GPU code calls ") << function.getName();
  return generateCode(module, *code, *target, llvm::CodeGenFileType::AssemblyFile,
                      "this LLVM cannot write PTX");
}

//--- Cubins
//---------------------------------------------------------------------------------------

struct Assembler {
  std::string ptxas, fatbinary;
  bool complete() const { return !ptxas.empty() && !fatbinary.empty(); }
};

std::string findIn(StringRef folder, StringRef name) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "bin", name);
  return llvm::sys::fs::can_execute(path) ? std::string(path) : std::string();
}

Assembler findAssembler(StringRef toolkit) {
  if (!toolkit.empty())
    return {findIn(toolkit, "ptxas"), findIn(toolkit, "fatbinary")};
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    return {findIn(*home, "ptxas"), findIn(*home, "fatbinary")};
  auto onPath = [](StringRef name) {
    auto found = llvm::sys::findProgramByName(name);
    return found ? *found : std::string();
  };
  // Both from one place: versions must agree.
  Assembler found{onPath("ptxas"), onPath("fatbinary")};
  if (!found.complete())
    found = {findIn("/usr/local/cuda", "ptxas"), findIn("/usr/local/cuda", "fatbinary")};
  return found;
}

FailureOr<std::string> assemble(ModuleOp module, const Assembler &tools, StringRef ptx) {
  TemporaryFolder folder;
  if (failed(folder.write(module, "kernels.ptx", ptx)))
    return failure();
  std::vector<std::string> bind{"--64", "--create=" + folder.file("kernels.fatbin")};
  for (StringRef arch : architectures) {
    std::string name = ("kernels." + arch + ".cubin").str();
    if (failed(runTool(module, folder, "assembling the generated kernels", tools.ptxas,
                       {("-arch=sm_" + arch).str(), "-O3", folder.file("kernels.ptx"), "-o",
                        folder.file(name)},
                       name)))
      return failure();
    bind.push_back(("--image3=kind=elf,sm=" + arch + ",file=").str() + folder.file(name));
  }
  // The PTX serves devices that are newer than these.
  bind.push_back("--image3=kind=ptx,sm=80,file=" + folder.file("kernels.ptx"));
  return runTool(module, folder, "joining the generated kernels", tools.fatbinary, bind,
                 "kernels.fatbin");
}

} // namespace

void prepareGpuContext(MLIRContext *context) {
  context->loadDialect<gpu::GPUDialect, NVVM::NVVMDialect>();
  registerGPUDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
}

gpu::GPUModuleOp makeGpuModule(ModuleOp module) {
  ImplicitLocOpBuilder b(module.getLoc(), OpBuilder::atBlockEnd(module.getBody()));
  auto kernels = gpu::GPUModuleOp::create(b, "kernels");
  b.setInsertionPointToStart(kernels.getBody());
  LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false,
                         LLVM::Linkage::External, sharedSymbol, Attribute(), /*alignment=*/16,
                         sharedMemory);
  return kernels;
}

FailureOr<std::string> compilePtx(ModuleOp module) {
  if (failed(lowerToDevice(module)))
    return failure();
  return generatePtx(module);
}

FailureOr<rt::GeneratedCode> compileForDevices(ModuleOp module, StringRef toolkit) {
  FailureOr<std::string> ptx = compilePtx(module);
  if (failed(ptx))
    return failure();
  Assembler tools = findAssembler(toolkit);
  if (!tools.complete()) {
    if (!toolkit.empty())
      return module.emitError("no bin/ptxas and bin/fatbinary in ") << toolkit;
    module.emitRemark("no ptxas and fatbinary found (CUDA_HOME, PATH): generated kernels are PTX, "
                      "which the driver compiles when the program starts");
    return rt::GeneratedCode{"kernels.ptx", std::move(*ptx)};
  }
  FailureOr<std::string> bytes = assemble(module, tools, *ptx);
  if (failed(bytes))
    return failure();
  return rt::GeneratedCode{"kernels.fatbin", std::move(*bytes)};
}

} // namespace omnibal::lower
