//===- OmnibalPartOps.td - Where the parts of a stage meet ---------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_TD

include "dialects/omnibal/ir/OmnibalTensorOps.td"
include "dialects/pipeline/OmnibalPlanAttrs.td"

def ReshardOp : Omnibal_Op<"reshard", [Pure,
    DeclareOpInterfaceMethods<ShapeInferenceOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface>,
    DeclareOpInterfaceMethods<RematerializableOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "A value of a stage's parts moves from one layout to another";
  let description = [{
    Stands in the function of a part: `whole` is the type of the value, operand and result have the
    types of what the part holds of it. All `parts` run their functions in step and meet here. A
    partial value is the sum of all parts' summands, added in the order of parts. The gradient is a
    move of dy from the dual of `to` to the dual of `from`.

    Constraints:
    * (reshard_c1) there is a part that holds the operand under `from` and the result under `to`;
    * (reshard_c2) integers are not partial.
  }];
  let arguments = (ins AnyRankedTensor:$input, LayoutAttr:$from, LayoutAttr:$to,
                       ConfinedAttr<I64Attr, [IntPositive]>:$parts, TypeAttrOf<AnyRankedTensor>:$whole);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `from` $from `to` $to `parts` $parts `of` $whole attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_TD
