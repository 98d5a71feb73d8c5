//===- OmnibalStageOps.td - What each stage does, in order -------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_TD

include "dialects/omnibal/ir/OmnibalDialect.td"
include "dialects/omnibal/ir/OmnibalStageEnums.td"
include "dialects/pipeline/OmnibalPlanEnums.td"

def TransferOp : Omnibal_Op<"transfer", [Symbol, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A message between two chunks, the same for every micro-batch";
  let description = [{
    Carries output `outputs[i]` of call `layers[i]` of @main, or its gradient, from chunk `from` to
    chunk `to`. With the micro-batch, `id` tells messages apart on the wire.

    Constraints:
    * (transfer_c1) both chunks are in the module's `omnibal.plan`, on different stages;
    * (transfer_c2) there is a value, and `layers` and `outputs` are of one length;
    * (transfer_c3) every value is an output of a call in the chunk that produces it (`from`; for a
      gradient `to`) and an input of a call in the other chunk;
    * (transfer_c4) no two transfers have one id.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TransferKind:$kind, I64Attr:$id, I64Attr:$from,
                       I64Attr:$to, StrArrayAttr:$layers, DenseI64ArrayAttr:$outputs);
  let assemblyFormat = [{
    $sym_name $kind `id` $id `from` $from `to` $to `layers` $layers `outputs` $outputs attr-dict
  }];
  let hasVerifier = 1;
}

def StageOp : Omnibal_Op<"stage", [Symbol, HasParent<"::mlir::ModuleOp">, IsolatedFromAbove,
    SingleBlock, NoTerminator, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The actions of one stage in one mode, in order";
  let description = [{
    What the stage does in a training step; with `mode evaluate` in a step of evaluation (the forward
    of every micro-batch), with `mode inference` for one batch whose outputs are wanted.
    `post_recv` and `send` start and do not block, `wait_recv` and `wait_send` block. Everything of
    a step is here: no communication happens that no action asks for.

    Constraints:
    * (stage_c1) the body holds stage actions only;
    * (stage_c2) every receive and send starts once and is awaited once, after its start;
    * (stage_c3) each part of a chunk runs once a micro-batch: first the forward, then the backward
      or the input_grad, and a weight_grad only after its input_grad;
    * (stage_c4) the step ends with reduce_shared, reduce_gradients, reduce_scalars and update_parameters
      in this order, or with scatter_gradients in place of reduce_gradients and gather_parameters
      behind the update; all but reduce_shared come at most once, nothing else follows the update;
    * (stage_c5) the module has an `omnibal.plan`; its index and micro-batches are in it, no other
      op has the index in that mode, and it runs the chunks that the plan puts there;
    * (stage_c6) every message is an omnibal.transfer of which the stage is the sender (send,
      wait_send) or the receiver (post_recv, wait_recv);
    * (stage_c7) a send comes after the run that makes its values, a wait_recv before the run that
      reads them;
    * (stage_c8) reduce_shared names an omnibal.parameter that trains;
    * (stage_c9) other modes than train have forward runs and messages of activations only, inference
      has micro-batch 0 only.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$index,
                       DefaultValuedAttr<StageMode, "::omnibal::StageMode::Train">:$mode);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `index` $index (`mode` $mode^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

class StageAction<string mnemonic> : Omnibal_Op<mnemonic, [HasParent<"StageOp">]>;

def RunOp : StageAction<"run"> {
  let summary = "Runs the layers of a chunk on a micro-batch";
  let description = [{
    `backward` is recomputation, gradients of the inputs and of the parameters; `input_grad` and
    `weight_grad` are its two halves.
  }];
  let arguments = (ins RunKind:$kind, I64Attr:$chunk, I64Attr:$microbatch);
  let assemblyFormat = "$kind `chunk` $chunk `microbatch` $microbatch attr-dict";
}

class MessageAction<string mnemonic, string what> : StageAction<mnemonic> {
  let summary = what;
  let arguments = (ins FlatSymbolRefAttr:$message, I64Attr:$microbatch);
  let assemblyFormat = "$message `microbatch` $microbatch attr-dict";
}
def PostRecvOp : MessageAction<"post_recv", "Starts to receive; the buffer is in use from here on">;
def WaitRecvOp : MessageAction<"wait_recv", "Waits until the message is here">;
def SendOp : MessageAction<"send", "Starts to send; completes when the receiver has posted">;
def WaitSendOp : MessageAction<"wait_send", "Waits until the sent buffer may be reused">;

def ReduceSharedOp : StageAction<"reduce_shared"> {
  let summary = "Sums the gradient of a parameter over the stages that use it, in stage order";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let assemblyFormat = "$parameter attr-dict";
}
def ReduceGradientsOp : StageAction<"reduce_gradients"> {
  let summary = "Sums the stage's gradients over the replicas, in their order";
  let description = [{ How many gradients travel together is a matter of export. }];
  let assemblyFormat = "attr-dict";
}
def ScatterGradientsOp : StageAction<"scatter_gradients"> {
  let summary = "Does the same, but each replica gets its share of the sums";
  let assemblyFormat = "attr-dict";
}
def ReduceScalarsOp : StageAction<"reduce_scalars"> {
  let summary = "Sums loss, label count and squared gradient norm over all stages";
  let assemblyFormat = "attr-dict";
}
def UpdateParametersOp : StageAction<"update_parameters"> {
  let summary = "Divides by the label count, clips by the global norm, takes the optimizer's step";
  let description = [{
    The hyperparameters are the run's, not the program's: they change between steps and runs.
  }];
  let assemblyFormat = "attr-dict";
}
def GatherParametersOp : StageAction<"gather_parameters"> {
  let summary = "Gives all replicas what each has updated of its share";
  let assemblyFormat = "attr-dict";
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_TD
