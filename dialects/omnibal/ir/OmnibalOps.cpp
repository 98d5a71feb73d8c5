//===- OmnibalOps.cpp - Dialect registration and generated definitions -------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/FactorRule.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace omnibal;

#include "dialects/omnibal/ir/OmnibalDialect.cpp.inc"
#include "dialects/omnibal/ir/OmnibalEnums.cpp.inc"
#include "dialects/omnibal/ir/OmnibalInterfaces.cpp.inc"

void OmnibalDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/ir/OmnibalOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/ir/OmnibalStageOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/ir/OmnibalCrossOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/ir/OmnibalPartOps.cpp.inc"
      >();
  attachFactorRules(*getContext());
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

void YieldOp::build(OpBuilder &, OperationState &) {}

LogicalResult ParameterOp::verify() {
  bool anywhere = getFile() || getOffset() || getLength();
  bool complete = getFile() && getOffset() && getLength();
  if (anywhere && (!complete || getValue())) // parameter_c1
    return emitOpError("needs 'file', 'offset' and 'length' together, and not with 'value'");
  if (getValue() && getValue()->getShapedType() != getType()) // parameter_c1
    return emitOpError() << "has a value of type " << getValue()->getShapedType() << ", not "
                         << getType();
  return success();
}

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalOps.cpp.inc"
