//===- OmnibalTrainOps.td - Layers, their functions and calls ----------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALTRAINOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALTRAINOPS_TD

include "dialects/omnibal/ir/OmnibalDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def LayerOp : Omnibal_Op<"layer", [IsolatedFromAbove, SingleBlock,
    SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments]> {
  let summary = "The unit that is costed, placed, recomputed and differentiated";
  let description = [{
    `inputs` are activations, `parameters` results of get_parameter. The block's arguments are
    inputs then parameters. Batch values and constants are ops inside. Decisions are attributes:
    `omnibal.chunk`, `omnibal.remat` ("keep", "selective-N", "full"), `omnibal.cost`.

    Constraints:
    * (layer_c1) the block has one argument an input, then one a parameter, of the operand's type;
    * (layer_c2) the body ends in a yield whose operands have the types of the outputs;
    * (layer_c3) every parameter is the result of get_parameter;
    * (layer_c4) `omnibal.remat` is "keep", "selective-N" or "full", `omnibal.chunk` is >= 0;
    * (layer_c5) `omnibal.outputs`, if present, names every output: "output", "loss", "prediction",
      "router_loss", "chosen_reward", "rejected_reward", "preferred".
  }];
  let arguments = (ins StrAttr:$name, LayerKind:$kind, Variadic<AnyRankedTensor>:$inputs,
                       Variadic<AnyRankedTensor>:$parameters);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name $kind `inputs` `(` $inputs `)` `parameters` `(` $parameters `)` attr-dict-with-keyword
    `:` functional-type(operands, results) $body
  }];
  let hasRegionVerifier = 1;
}
def YieldOp : Omnibal_Op<"yield", [Pure, Terminator, HasParent<"LayerOp">]> {
  let summary = "What leaves the layer";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

def LayerFnOp : Omnibal_Op<"layer_fn", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The functions shared by all equal layers";
  let description = [{
    `forward` is the training forward, `evaluate` saves nothing, `inference` also yields the graph's
    own outputs; `backward` is absent where nothing trains in the layer or upstream of it. Where the
    schedule splits the backward, `input_grad` and `weight_grad` are its two halves: without a
    gradient of an input (and without a loss) there is no input_grad, without a parameter whose
    gradient can wait no weight_grad, and the other half is the whole. Arguments and results of the functions carry `omnibal.role` and `omnibal.index` (docs/contract-compiler.md;
    `omnibal-verify-functions` checks them).

    Constraints:
    * (layer_fn_c1) every function named is a func.func of the module that has a body;
    * (layer_fn_c2) halves of a backward come with the backward.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$forward,
                       OptionalAttr<FlatSymbolRefAttr>:$backward,
                       OptionalAttr<FlatSymbolRefAttr>:$input_grad,
                       OptionalAttr<FlatSymbolRefAttr>:$weight_grad, FlatSymbolRefAttr:$evaluate,
                       FlatSymbolRefAttr:$inference);
  let assemblyFormat = [{
    $sym_name `forward` `(` $forward `)` (`backward` `(` $backward^ `)`)?
    (`input_grad` `(` $input_grad^ `)`)? (`weight_grad` `(` $weight_grad^ `)`)?
    `evaluate` `(` $evaluate `)` `inference` `(` $inference `)` attr-dict
  }];
}

def CallLayerOp : Omnibal_Op<"call_layer", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A layer after its body became functions: one step of @main";
  let description = [{
    Stands for the forward and the backward of one layer; which of the callee's functions run, when
    and on which chunk (`omnibal.chunk`) is the program's business. `outputs` are those of the
    layer: the index of role `output` counts among all of them, also where `omnibal.outputs` says
    that some are losses or predictions, which only `backward` and `evaluate` compute.

    Constraints:
    * (call_layer_c1) `callee` is a layer_fn;
    * (call_layer_c2) every name in `parameters` is an omnibal.parameter;
    * (call_layer_c3) inputs, parameters and outputs have the types of the arguments and results of
      the callee's functions with that role and index;
    * (call_layer_c4) `omnibal.chunk` is an integer >= 0;
    * (call_layer_c5) `omnibal.outputs`, if present, names every output: "output", "loss",
      "prediction", "router_loss", "chosen_reward", "rejected_reward", "preferred".
  }];
  let arguments = (ins StrAttr:$name, LayerKind:$kind, FlatSymbolRefAttr:$callee,
                       Variadic<AnyRankedTensor>:$inputs, FlatSymbolRefArrayAttr:$parameters);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $name $kind $callee `inputs` `(` $inputs `)` `parameters` $parameters attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALTRAINOPS_TD
