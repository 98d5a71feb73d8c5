//===- OmnibalTrainOps.td - Layers, chunks, transfers, optimizer --------------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALTRAINOPS_TD
#define DIALECTS_OMNIBAL_OMNIBALTRAINOPS_TD

include "dialects/omnibal/OmnibalDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def LayerOp : Omnibal_Op<"layer", [IsolatedFromAbove, SingleBlock,
    SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments]> {
  let summary = "The unit that is costed, placed, recomputed and differentiated (D14)";
  let description = [{
    `inputs` are activations, `parameters` results of get_parameter. The block's arguments are
    inputs then parameters. Batch values and constants are ops inside. Decisions are attributes:
    `omnibal.chunk`, `omnibal.remat` ("keep", "full"), `omnibal.cost`.
  }];
  let arguments = (ins StrAttr:$name, LayerKind:$kind, Variadic<AnyRankedTensor>:$inputs,
                       Variadic<AnyRankedTensor>:$parameters);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name $kind `inputs` `(` $inputs `)` `parameters` `(` $parameters `)` attr-dict-with-keyword
    `:` functional-type(operands, results) $body
  }];
}
def YieldOp : Omnibal_Op<"yield", [Pure, Terminator]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

#endif // DIALECTS_OMNIBAL_OMNIBALTRAINOPS_TD
