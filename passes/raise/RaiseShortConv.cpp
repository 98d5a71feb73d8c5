//===- RaiseShortConv.cpp - omnibal-raise-short-conv ----------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISESHORTCONVPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// A convolution of every channel of [1, C, N] by itself, of which the first N places (from `begin`
/// on) are read: result n reads rows n - offsets[k].
struct ShortConv {
  ConvOp conv;
  Value result;
  SmallVector<int64_t> offsets;
};

std::optional<ShortConv> match(ConvOp conv) {
  SymbolicShape x = shapeOf(conv.getInput()), weight = shapeOf(conv.getWeight());
  if (x.size() != 3 || !x[0].isOne() || x[2] != SymbolicDim::tokens() || !weight[2].isStatic() ||
      SymbolicDim(conv.getGroup()) != x[1] || weight[0] != x[1] || conv.getStrides()[0] != 1)
    return std::nullopt;
  ShortConv found{conv, conv.getResult(), {}};
  int64_t begin = 0;
  if (shapeOf(found.result) != x) { // longer by the padding behind, which is cut off
    auto slice =
        found.result.hasOneUse() ? dyn_cast<SliceOp>(*found.result.user_begin()) : SliceOp();
    if (!slice || !slice.getBegin() || shapeOf(slice.getResult()) != x ||
        (slice.getStep() && llvm::any_of(*slice.getStep(), [](int64_t step) { return step != 1; })))
      return std::nullopt;
    begin = (*slice.getBegin())[2];
    found.result = slice.getResult();
  }
  for (int64_t k = 0; k < weight[2].constant; ++k)
    found.offsets.push_back(conv.getPads()[0] - begin - k * conv.getDilations()[0]);
  bool causal = llvm::all_of(found.offsets, [](int64_t offset) { return offset >= 0; });
  return causal ? std::optional(found) : std::nullopt;
}

class ConvRaiser {
public:
  explicit ConvRaiser(const ShortConv &found)
      : found(found), conv(found.conv), builder(found.result.getDefiningOp()), loc(conv.getLoc()),
        channels(shapeOf(conv.getWeight())[0].constant) {}

  /// The sum of the rows at the offsets, each times its column of the weight.
  void run() {
    Value rows = transposed(builder, loc, conv.getInput(), {0, 2, 1});
    auto type = makeTensorType(builder.getContext(), {SymbolicDim::tokens()}, builder.getI32Type());
    Value positions = BatchValueOp::create(builder, loc, type, builder.getStringAttr("positions"));
    Value sum;
    for (auto [k, offset] : llvm::enumerate(found.offsets)) {
      Value shifted = rows;
      if (offset > 0)
        shifted = ShiftTokensOp::create(builder, loc, rows.getType(), rows, positions, offset,
                                        /*inverse=*/false);
      Value term = createOp<MulOp>(builder, loc, shifted, column(k));
      sum = sum ? createOp<AddOp>(builder, loc, sum, term).getResult() : term;
    }
    if (conv.getBias())
      sum = createOp<AddOp>(builder, loc, sum, conv.getBias());
    found.result.replaceAllUsesWith(transposed(builder, loc, sum, {0, 2, 1}));
  }

private:
  /// Column k of the weight [C, 1, K].
  Value column(int64_t k) {
    Type element = typeOf(conv.getWeight()).getElementType();
    auto type = RankedTensorType::get({channels, 1, 1}, element);
    Value part = SliceOp::create(builder, loc, type, conv.getWeight(), Value(), Value(), Value(),
                                 Value(), builder.getDenseI64ArrayAttr({0, 0, k}),
                                 builder.getDenseI64ArrayAttr({1, 1, 1}));
    return reshapeTo(builder, loc, part, {channels});
  }

  ShortConv found;
  ConvOp conv;
  OpBuilder builder;
  Location loc;
  int64_t channels;
};
} // namespace
} // namespace raise

namespace {
struct RaiseShortConvPass : impl::RaiseShortConvPassBase<RaiseShortConvPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      raise::forEachOp(function, [](Operation *op) {
        if (auto conv = dyn_cast<ConvOp>(op))
          if (auto found = raise::match(conv))
            raise::ConvRaiser(*found).run();
      });
  }
};
} // namespace
} // namespace omnibal
