//===- OmnibalCrossOps.td - Tokens that attend to pictures --------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_TD

include "dialects/omnibal/ir/OmnibalTensorOps.td"

def CrossAttentionOp : Omnibal_PureOp<"cross_attention", [Diff]> {
  let summary = "softmax(scale * q k^T) v where each query sees the rows of some pictures";
  let description = [{
    q [1, H, L, D], k [1, Hk, S, D], v [1, Hk, S, Dv]; query head h reads key head h * Hk / H. Query
    i sees the keys from rows * begins[i] to rows * ends[i] - 1 (begins, ends: i32 [L]; a picture has
    `rows` of them). A row that sees nothing gives 0. lse: log-sum-exp [1, H, L].
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
    IndexingTensor:$begins, IndexingTensor:$ends, F64Attr:$scale, I64Attr:$rows);
  let results = (outs FloatTensor:$result, FloatTensor:$lse);
}
def CrossAttentionGradOp : Omnibal_PureOp<"cross_attention_grad"> {
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
    FloatTensor:$result, FloatTensor:$lse, FloatTensor:$grad,
    IndexingTensor:$begins, IndexingTensor:$ends, F64Attr:$scale, I64Attr:$rows);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue);
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_TD
