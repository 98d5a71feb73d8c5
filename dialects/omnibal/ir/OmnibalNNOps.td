//===- OmnibalNNOps.td - Neural-network ops and their gradients --------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALNNOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALNNOPS_TD

include "dialects/omnibal/ir/OmnibalTensorOps.td"

def MatMulOp : Omnibal_PureOp<"matmul", [Diff]> {
  let summary = "NumPy matmul; transpose_* swap the last two dimensions of an operand first";
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs AnyRankedTensor:$result);
}
def LinearOp : Omnibal_PureOp<"linear", [Diff]> {
  let summary = "x [.., in] times weight [out, in] (or [in, out] with `in_out`) plus bias [out]";
  let arguments = (ins FloatTensor:$input, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       UnitAttr:$in_out);
  let results = (outs FloatTensor:$result);
}
def LinearWeightGradOp : Omnibal_PureOp<"linear_weight_grad"> {
  let summary = "Gradient of linear's weight: sum over all leading dimensions";
  let arguments = (ins FloatTensor:$input, FloatTensor:$grad, UnitAttr:$in_out);
  let results = (outs FloatTensor:$result);
}
def RowSquaresOp : Omnibal_PureOp<"row_squares", [HasZeroGradient]> {
  let summary = "Sum of the squares of each row of weight + scale * b a, as a constant for gradients";
  let description = [{
    weight [out, in] (or [in, out] with `in_out`), a [rank, in], b [out, rank]: result [out]. Its root
    is the norm by which DoRA divides a weight with its adapter, and through which no gradient passes.
    The sum of weight and product is in memory nowhere. The squares of a row are a sum over `in`, so
    parts that have columns of the weight add theirs.
  }];
  let arguments = (ins FloatTensor:$weight, FloatTensor:$a, FloatTensor:$b, F64Attr:$scale,
                       UnitAttr:$in_out);
  let results = (outs FloatTensor:$result);
}
def ConvOp : Omnibal_PureOp<"conv", [Diff]> {
  let summary = "ONNX Conv, any number of spatial dimensions; pads: begins then ends";
  let arguments = (ins FloatTensor:$input, FloatTensor:$weight, Optional<FloatTensor>:$bias,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$group);
  let results = (outs FloatTensor:$result);
}
def ConvInputGradOp : Omnibal_PureOp<"conv_input_grad"> {
  let arguments = (ins FloatTensor:$grad, FloatTensor:$weight,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$group);
  let results = (outs FloatTensor:$result);
}
def ConvWeightGradOp : Omnibal_PureOp<"conv_weight_grad"> {
  let arguments = (ins FloatTensor:$input, FloatTensor:$grad,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$group);
  let results = (outs FloatTensor:$result);
}
def SoftmaxOp : Omnibal_PureOp<"softmax", [Diff]> {
  let arguments = (ins FloatTensor:$input, I64Attr:$axis);
  let results = (outs FloatTensor:$result);
}
def LogSoftmaxOp : Omnibal_PureOp<"log_softmax", [Diff]> {
  let arguments = (ins FloatTensor:$input, I64Attr:$axis);
  let results = (outs FloatTensor:$result);
}
def LayerNormOp : Omnibal_PureOp<"layer_norm", [Diff]> {
  let summary = "Over dimensions [axis, rank): (x - mean) * rsqrt(var + epsilon) * scale + bias";
  let arguments = (ins FloatTensor:$input, FloatTensor:$scale, Optional<FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs FloatTensor:$result);
}
def RMSNormOp : Omnibal_PureOp<"rms_norm", [Diff]> {
  let summary = "Over dimensions [axis, rank): x * rsqrt(mean(x^2) + epsilon) * scale";
  let arguments = (ins FloatTensor:$input, Optional<FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs FloatTensor:$result);
}

def AttentionOp : Omnibal_PureOp<"attention", [Diff, AttrSizedOperandSegments]> {
  let summary = "softmax(scale * q k^T + mask) v";
  let description = [{
    q [B, H, L, D], k [B, Hk, S, D], v [B, Hk, S, Dv]; query head h reads key head h * Hk / H.
    Before raising `mask_kind` may be explicit: `mask` (i1: true = sees; float: added) broadcasts to
    [B, H, L, S]; a row that sees nothing gives 0. After raising there is no mask operand; with
    `cu_seqlens` (i32, borders; B is 1) attention stays within segments, without it within each
    batch entry. `types` (i32 [L]) are the token types of a mask of kind prefix or blocks, and
    `type_range` (first, last) says which of them count. `sinks` [H] are logits beside a row's
    scores, of a key with value 0 that every query sees. lse: log-sum-exp [B, H, L], sinks included.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
    Optional<AnyRankedTensor>:$mask, Optional<IndexingTensor>:$cu_seqlens, Optional<IndexingTensor>:$types,
    Optional<FloatTensor>:$sinks,
    F64Attr:$scale, MaskKind:$mask_kind, OptionalAttr<I64Attr>:$window,
    OptionalAttr<DenseI64ArrayAttr>:$type_range, OptionalAttr<F64Attr>:$softcap);
  let results = (outs FloatTensor:$result, FloatTensor:$lse);
}
def AttentionGradOp : Omnibal_PureOp<"attention_grad", [AttrSizedOperandSegments]> {
  let description = "Sinks show in result and lse alone.";
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
    FloatTensor:$result, FloatTensor:$lse, FloatTensor:$grad,
    Optional<IndexingTensor>:$cu_seqlens, Optional<IndexingTensor>:$types,
    F64Attr:$scale, MaskKind:$mask_kind, OptionalAttr<I64Attr>:$window,
    OptionalAttr<DenseI64ArrayAttr>:$type_range, OptionalAttr<F64Attr>:$softcap);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue);
}
def RopeOp : Omnibal_PureOp<"rope", [Diff]> {
  let summary = "Rotary embedding of x [B, H, L, D] by rows positions[l] of cos/sin [P, R], R <= D";
  let arguments = (ins FloatTensor:$input, IndexingTensor:$positions, FloatTensor:$cos, FloatTensor:$sin,
                       UnitAttr:$interleaved, UnitAttr:$inverse);
  let results = (outs FloatTensor:$result);
}
def EmbeddingOp : Omnibal_PureOp<"embedding", [Diff]> {
  let summary = "Rows of table [W, C] at ids [..]: result [.., C]";
  let description = "The row `padding` gets no gradient (PyTorch's padding_idx).";
  let arguments = (ins FloatTensor:$table, IndexingTensor:$ids, OptionalAttr<I64Attr>:$padding);
  let results = (outs FloatTensor:$result);
}
def EmbeddingGradOp : Omnibal_PureOp<"embedding_grad"> {
  let summary = "Scatter-add of grad rows into zeros of the table's shape (the result type), but none into the row `padding`";
  let arguments = (ins FloatTensor:$grad, IndexingTensor:$ids, OptionalAttr<I64Attr>:$padding);
  let results = (outs FloatTensor:$result);
}
def ShiftTokensOp : Omnibal_PureOp<"shift_tokens", [Diff]> {
  let summary = "Row n of x [1, N, C] is row n - distance of its sample, zeros where there is none";
  let description = [{
    `positions` (i32, N elements) count the rows of each sample from 0. `inverse` is the transpose:
    row n is row n + distance of the same sample.
  }];
  let arguments = (ins FloatTensor:$input, IndexingTensor:$positions, I64Attr:$distance, UnitAttr:$inverse);
  let results = (outs FloatTensor:$result);
}
def GatedDeltaOp : Omnibal_PureOp<"gated_delta", [Diff]> {
  let summary = "Linear attention by the gated delta rule: a matrix of keys and values, token by token";
  let description = [{
    query, key [B, H, L, D], value [B, H, L, Dv], decay (a logarithm) and beta [B, H, L]. With a
    state S [D, Dv] that is 0 before a segment's first token, for each token in turn:
    S = exp(decay) S; S = S + key (beta (value - key^T S)); result = scale * query^T S. Segments are
    those of `cu_seqlens` (i32, borders; B is 1), without it each batch entry is one.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value, FloatTensor:$decay,
    FloatTensor:$beta, Optional<IndexingTensor>:$cu_seqlens, F64Attr:$scale);
  let results = (outs FloatTensor:$result);
}
def GatedDeltaGradOp : Omnibal_PureOp<"gated_delta_grad"> {
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value, FloatTensor:$decay,
    FloatTensor:$beta, FloatTensor:$grad, Optional<IndexingTensor>:$cu_seqlens, F64Attr:$scale);
  let results = (outs FloatTensor:$dquery, FloatTensor:$dkey, FloatTensor:$dvalue, FloatTensor:$ddecay,
    FloatTensor:$dbeta);
}
def ImageMergeOp : Omnibal_PureOp<"image_merge", [Diff]> {
  let summary = "Row n of text [1, N, C], or row image_rows[n] of features [.., C] where that is >= 0";
  let arguments = (ins FloatTensor:$text, FloatTensor:$features, IndexingTensor:$image_rows);
  let results = (outs FloatTensor:$result);
}
def ImageMergeGradOp : Omnibal_PureOp<"image_merge_grad"> {
  let arguments = (ins FloatTensor:$grad, IndexingTensor:$image_rows);
  let results = (outs FloatTensor:$dtext, FloatTensor:$dfeatures);
}

//--- Rows in groups (experts) -------------------------------------------------------------------------------

def TopKOp : Omnibal_PureOp<"top_k"> {
  let summary = "Places of the k largest values along the last dimension, largest first, of equal ones the first";
  let description = "[.., E] gives i64 [.., k]; with `smallest` the k smallest, smallest first.";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$k, UnitAttr:$smallest);
  let results = (outs IndexingTensor:$result);
}
def GroupRowsOp : Omnibal_PureOp<"group_rows"> {
  let summary = "Rows sorted by the group that each belongs to";
  let description = [{
    ids [..] of R rows, each in [0, groups): `order` (i32 [R]) are the rows of group 0, then those of
    group 1, .., each in their own order; rows of group g stand at [borders[g], borders[g + 1])
    (i32 [groups + 1]).
  }];
  let arguments = (ins IndexingTensor:$ids, I64Attr:$groups);
  let results = (outs IndexingTensor:$order, IndexingTensor:$borders);
}
def GroupedLinearOp : Omnibal_PureOp<"grouped_linear", [Diff]> {
  let summary = "Each row times the weight of its group: x [.., in], weight [groups, out, in]";
  let description = "With `in_out` the weight is [groups, in, out]. Order and borders are group_rows'.";
  let arguments = (ins FloatTensor:$input, FloatTensor:$weight, IndexingTensor:$order,
                       IndexingTensor:$borders, UnitAttr:$in_out);
  let results = (outs FloatTensor:$result);
}
def GroupedLinearWeightGradOp : Omnibal_PureOp<"grouped_linear_weight_grad"> {
  let summary = "Gradient of grouped_linear's weight: for each group the sum over its rows";
  let arguments = (ins FloatTensor:$input, FloatTensor:$grad, IndexingTensor:$order,
                       IndexingTensor:$borders, UnitAttr:$in_out);
  let results = (outs FloatTensor:$result);
}

//--- Loss -------------------------------------------------------------------------------------------------

def CrossEntropyOp : Omnibal_PureOp<"cross_entropy", [Diff]> {
  let summary = "Per-row loss of logits [.., W] at targets (i32, -1 = none: loss 0); result [..]";
  let description = [{
    `prediction` (i32 [..]): arg max, lowest index, at rows with a target, else -1. With s =
    `smoothing`, L = log sum exp of a row x, and t its target, the loss is
    L - (1 - s) x[t] - s mean(x) + `z` L^2.
  }];
  let arguments = (ins FloatTensor:$logits, IndexingTensor:$targets,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z);
  let results = (outs FloatTensor:$loss, Optional<IndexingTensor>:$prediction);
}
def CrossEntropyGradOp : Omnibal_PureOp<"cross_entropy_grad"> {
  let summary = "Gradient of the SUM of losses times nothing else; also gives the losses";
  let arguments = (ins FloatTensor:$logits, IndexingTensor:$targets,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z);
  let results = (outs FloatTensor:$loss, FloatTensor:$dlogits);
}
def LinearCrossEntropyOp : Omnibal_PureOp<"linear_cross_entropy", [Diff]> {
  let summary = "cross_entropy(scale * (hidden weight^T) + bias) without keeping logits";
  let description = "`prediction`, `smoothing` and `z` as in cross_entropy.";
  let arguments = (ins FloatTensor:$hidden, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       IndexingTensor:$targets, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z);
  let results = (outs FloatTensor:$loss, Optional<IndexingTensor>:$prediction);
}
def LinearCrossEntropyGradOp : Omnibal_PureOp<"linear_cross_entropy_grad", [AttrSizedOperandSegments]> {
  let summary = "Losses and gradients of their sum in one pass; unused gradients cost nothing";
  let description = "With `row_weights`, one a target, gradients are those of the sum of losses times these.";
  let arguments = (ins FloatTensor:$hidden, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       IndexingTensor:$targets, Optional<FloatTensor>:$row_weights,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z);
  let results = (outs FloatTensor:$loss, FloatTensor:$dhidden, FloatTensor:$dweight,
                      Optional<FloatTensor>:$dbias);
}
//--- The loss of a head whose words are divided among parts -----------------------------------------

def WordStatisticsOp : Omnibal_PureOp<"word_statistics", [HasZeroGradient]> {
  let summary = "What a part knows of the logits of its own words, as a constant for gradients";
  let description = [{
    Logits are those of linear_cross_entropy. The part's words are those from `first` on, as many as the
    weight has rows, of `words` in all. For each row of `targets`, `statistics` [1, .., 3] are the
    largest logit (minus infinity: there is no word), the sum of e^(logit - largest) and the target's
    logit, which is 0 where the target is another part's; with `totals` the sum of the logits is the
    fourth. Rows without a target have zeros. `prediction` [1, ..] is the number of the largest logit's
    word among all words, the lowest of equals.
  }];
  let arguments = (ins FloatTensor:$hidden, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       IndexingTensor:$targets, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       I64Attr:$first, I64Attr:$words, UnitAttr:$totals);
  let results = (outs FloatTensor:$statistics, IndexingTensor:$prediction);
}
def JoinedCrossEntropyOp : Omnibal_PureOp<"joined_cross_entropy", [Diff]> {
  let summary = "linear_cross_entropy of all parts' words, from the statistics of each part";
  let description = [{
    `statistics` are those of word_statistics, of all parts; they need a fourth number where `smoothing`
    is not 0. The other operands are the part's: the loss follows from the statistics, and its gradients
    from the part's own logits, which are computed again.
  }];
  let arguments = (ins FloatTensor:$hidden, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       IndexingTensor:$targets, FloatTensor:$statistics,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z, I64Attr:$first, I64Attr:$words);
  let results = (outs FloatTensor:$loss);
}
def JoinedCrossEntropyGradOp : Omnibal_PureOp<"joined_cross_entropy_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradients of the sum of losses: dhidden is a summand of the part, dweight is its own";
  let description = "`row_weights` as in linear_cross_entropy_grad.";
  let arguments = (ins FloatTensor:$hidden, FloatTensor:$weight, Optional<FloatTensor>:$bias,
                       IndexingTensor:$targets, FloatTensor:$statistics,
                       Optional<FloatTensor>:$row_weights,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing,
                       DefaultValuedAttr<F64Attr, "0.0">:$z, I64Attr:$first, I64Attr:$words);
  let results = (outs FloatTensor:$dhidden, FloatTensor:$dweight, Optional<FloatTensor>:$dbias);
}
def JoinedPredictionOp : Omnibal_PureOp<"joined_prediction", [HasZeroGradient]> {
  let summary = "The prediction of all words from that of each part's: -1 at rows without a target";
  let arguments = (ins FloatTensor:$statistics, IndexingTensor:$predictions, IndexingTensor:$targets);
  let results = (outs IndexingTensor:$prediction);
}

def PreferenceLossOp : Omnibal_PureOp<"preference_loss", [Diff]> {
  let summary = "Loss of pairs of answers by direct preference optimization (DPO)";
  let description = [{
    `losses` [N] are cross entropies of tokens. The segments between `cu_seqlens` (i32, borders) come
    in pairs, the chosen answer before the rejected one; an empty segment or one alone is no pair. A
    segment's log-probability l is minus the sum of its losses, and `reference` [N] has at its first
    row that of the model which training begins with. With the rewards r = `beta` (l - reference),
    m = r of the chosen - r of the rejected, and s = `smoothing`, the loss of a pair is
    -(1 - s) log sigmoid(m) - s log sigmoid(-m). The results [N] are 0 but at the first row of a
    pair: the loss, both rewards, and 1 in `preferred` if the chosen answer has the greater reward.
  }];
  let arguments = (ins FloatTensor:$losses, IndexingTensor:$cu_seqlens, FloatTensor:$reference,
                       F64Attr:$beta, DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs FloatTensor:$loss, FloatTensor:$chosen, FloatTensor:$rejected,
                      FloatTensor:$preferred);
}
def PreferenceLossGradOp : Omnibal_PureOp<"preference_loss_grad"> {
  let summary = "Gradient of the sum of preference_loss's loss, of rows times `grad` if that is there";
  let arguments = (ins FloatTensor:$losses, IndexingTensor:$cu_seqlens, FloatTensor:$reference,
                       Optional<FloatTensor>:$grad, F64Attr:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs FloatTensor:$dlosses);
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALNNOPS_TD
