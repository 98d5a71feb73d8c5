//===- OmnibalPartOps.cpp - Types of moves ---------------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_SHAPE_RULE(ReshardOp) {
  auto whole = cast<RankedTensorType>(getWhole());
  auto shape = getSymbolicShape(whole);
  auto declared = getResultShape(*this);
  if (!shape || !declared)
    return emitOpError("needs types with known dimensions");
  if (whole.getElementType() !=
      cast<RankedTensorType>(getInput().getType()).getElementType()) // reshard_c1
    return emitOpError() << "moves " << getInput().getType() << ", which is no part of " << whole;
  const bool isPartial = getFrom().isPartial() || getTo().isPartial();
  if (isPartial && !isa<FloatType>(whole.getElementType())) // reshard_c2
    return emitOpError() << "moves partial values of type " << whole.getElementType()
                         << "; integers are not partial";
  const auto parts = static_cast<int64_t>(getParts());
  for (LayoutAttr layout : {getFrom(), getTo()})
    if (!partShape(*shape, layout, parts, 0)) // reshard_c1
      return emitOpError() << "cannot split " << toString(*shape) << " as " << layout
                           << "; units and inner must divide the dimension";
  for (int64_t part = 0; part < parts; ++part)
    if (*partShape(*shape, getFrom(), parts, part) == shapes[0] &&
        *partShape(*shape, getTo(), parts, part) == *declared) {
      results.push_back(*declared);
      return success();
    }
  // reshard_c1
  return emitOpError() << "moves " << toString(shapes[0]) << " to " << toString(*declared)
                       << ", but none of " << parts << " parts holds these of " << toString(*shape);
}

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalPartOps.cpp.inc"
