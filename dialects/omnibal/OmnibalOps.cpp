//===- OmnibalOps.cpp - Dialect registration and generated definitions -------------------===//
#include "dialects/omnibal/OmnibalOps.h"
#include "dialects/omnibal/OmnibalCrossOps.h"
#include "dialects/omnibal/OmnibalStageOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace omnibal;

#include "dialects/omnibal/OmnibalDialect.cpp.inc"
#include "dialects/omnibal/OmnibalEnums.cpp.inc"
#include "dialects/omnibal/OmnibalInterfaces.cpp.inc"

void OmnibalDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/OmnibalOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/OmnibalStageOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/omnibal/OmnibalCrossOps.cpp.inc"
      >();
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
#include "dialects/omnibal/OmnibalOps.cpp.inc"
