//===- Pipeline.cpp - omnibal-raise ------------------------------------------------------===//
#include "mlir/Pass/PassRegistry.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace omnibal {
namespace {
struct RaiseOptions : PassPipelineOptions<RaiseOptions> {
  Option<int64_t> tokens{
      *this, "tokens", llvm::cl::desc("Largest number of tokens of a micro-batch: rows of tables"),
      llvm::cl::init(4096)};
  Option<std::string> routerLossCoefficient{
      *this, "router-loss-coefficient",
      llvm::cl::desc("What the routers' loss counts, 0: nothing; empty: as the graph says")};
};
} // namespace

void buildRaisePipeline(OpPassManager &manager, int64_t tokens,
                        const std::string &routerLossCoefficient) {
  // Less to look at: everything below works on the logits' part of the graph.
  manager.addPass(createSelectLogitsPass({routerLossCoefficient}));
  // Local forms, in any order. Embeddings come before inputs are classified: they tell the ids.
  manager.addPass(createShortenLayoutPass());
  manager.addPass(createRaiseNormsPass());
  manager.addPass(createRaiseActivationsPass());
  manager.addPass(createRaisePatchConvPass());
  manager.addPass(createRaiseLinearPass());
  manager.addPass(createRaiseEmbeddingPass());
  manager.addPass(createRaiseExpertsPass());
  // Roles of inputs first: what depends on ids and pictures is content, the rest masks and
  // positions.
  manager.addPass(createClassifyInputsPass());
  manager.addPass(createRaiseImageMergePass());
  manager.addPass(createRaiseAttentionPass());
  manager.addPass(createRaiseShortConvPass());
  manager.addPass(createRaiseRecurrencesPass());
  RaiseRopePassOptions rope;
  rope.tokens = tokens;
  manager.addPass(createRaiseRopePass(rope));
  // Factors that blank padding are gone by now.
  manager.addPass(createRaiseRouterLossPass());
  // Last: masks and rotary tables are gone, other uses of positions remain.
  manager.addPass(createRaisePositionsPass());
  // Raising moved transposes around.
  manager.addPass(createShortenLayoutPass());
  manager.addPass(createVerifyRaisedPass());
  manager.addPass(createFindIncrementalPass());
}

void registerRaisePasses() {
  registerOmnibalRaisePasses();
  static PassPipelineRegistration<RaiseOptions> pipeline(
      "omnibal-raise", "Form S to form R: attention, norms, rotary embeddings, image merge",
      [](OpPassManager &manager, const RaiseOptions &options) {
        buildRaisePipeline(manager, options.tokens, options.routerLossCoefficient);
      });
}

} // namespace omnibal
