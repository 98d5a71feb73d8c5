//===- ModelOps.cpp - Shape rules of attention, embeddings, image merge and losses -------===//
#include "dialects/omnibal/ir/ShapeInference.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// query, key, value and the mask attributes fit; returns [B, H, L, Dv].
template <typename OpT>
FailureOr<SymbolicShape> attentionShape(OpT op, const SymbolicShape &q, const SymbolicShape &k,
                                        const SymbolicShape &v) {
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) // attention_c1
    return op.emitOpError("needs query, key and value of rank 4 [batch, heads, length, size]");
  bool fits = q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3];
  if (!fits) // attention_c2
    return op.emitOpError() << "query " << toString(q) << ", key " << toString(k) << " and value "
                            << toString(v) << " do not fit together";
  const bool hasNone = q[1] == SymbolicDim(0) && k[1] == q[1]; // a part's share may be empty
  if (!hasNone && (!q[1].isStatic() || !k[1].isStatic() || k[1].constant < 1 ||
                   q[1].constant % k[1].constant != 0)) // attention_c3
    return op.emitOpError() << "has " << toString(q[1]) << " query heads, no multiple of "
                            << toString(k[1]) << " key heads";
  MaskKind kind = op.getMaskKind();
  bool needsWindow = kind == MaskKind::Sliding || kind == MaskKind::Chunked;
  if ((needsWindow && !op.getWindow()) ||
      (op.getWindow() && !needsWindow && kind != MaskKind::Blocks && kind != MaskKind::Prefix) ||
      (op.getWindow() && *op.getWindow() < 1)) // attention_c4
    return op.emitOpError("needs a window >= 1 with mask kinds sliding and chunked, may have one "
                          "with blocks and prefix, and only then");
  bool typed = kind == MaskKind::Prefix || kind == MaskKind::Blocks;
  if (typed != bool(op.getTypes())) // attention_c5
    return op.emitOpError("needs token types with mask kinds prefix and blocks, and only then");
  auto range = op.getTypeRange();
  if ((range && (!typed || range->size() != 2 || (*range)[0] > (*range)[1])) ||
      (kind == MaskKind::Prefix && range && (*range)[0] != 0) ||
      (kind == MaskKind::Blocks && !range)) // attention_c10
    return op.emitOpError("needs a type_range [first, last] with mask kind blocks, may have one "
                          "from 0 on with prefix, and only then");
  if (kind != MaskKind::Explicit && kind != MaskKind::Full && q[2] != k[2]) // attention_c6
    return op.emitOpError() << "has " << toString(q[2]) << " queries and " << toString(k[2])
                            << " keys; its mask kind needs as many";
  if (op.getCuSeqlens() && !q[0].isOne()) // attention_c7
    return op.emitOpError("with cu_seqlens needs batch size 1");
  return SymbolicShape{q[0], q[1], q[2], v[3]};
}
} // namespace

OMNIBAL_SHAPE_RULE(AttentionOp) {
  FailureOr<SymbolicShape> result = attentionShape(*this, shapes[0], shapes[1], shapes[2]);
  if (failed(result))
    return failure();
  if ((getMaskKind() == MaskKind::Explicit) != bool(getMask())) // attention_c8
    return emitOpError("needs a mask operand with mask kind explicit, and only then");
  if (getMask()) {
    SymbolicShape scores{shapes[0][0], shapes[0][1], shapes[0][2], shapes[1][2]};
    auto joint = broadcast(scores, shapes[3]);
    if (!joint || *joint != scores) // attention_c9
      return emitOpError() << "mask " << toString(shapes[3]) << " does not broadcast to "
                           << toString(scores);
  }
  if (getSinks() && shapes.back() != SymbolicShape{shapes[0][1]}) // attention_c11
    return emitOpError() << "sinks must be [" << toString(shapes[0][1]) << "], one a query head";
  results.push_back(*result);
  results.push_back({shapes[0][0], shapes[0][1], shapes[0][2]});
  return success();
}

OMNIBAL_SHAPE_RULE(AttentionGradOp) {
  FailureOr<SymbolicShape> result = attentionShape(*this, shapes[0], shapes[1], shapes[2]);
  if (failed(result))
    return failure();
  SymbolicShape lse{shapes[0][0], shapes[0][1], shapes[0][2]};
  if (shapes[3] != *result || shapes[5] != *result || shapes[4] != lse) // attention_grad_c1
    return emitOpError("result, lse and gradient are not of the attention's shapes");
  if (getMaskKind() == MaskKind::Explicit) // attention_grad_c2
    return emitOpError("has no explicit mask: attention must be raised before it is trained");
  results.append({shapes[0], shapes[1], shapes[2]});
  return success();
}

OMNIBAL_SHAPE_RULE(RopeOp) {
  const SymbolicShape &x = shapes[0], &positions = shapes[1], &cos = shapes[2];
  if (x.size() != 4 || cos.size() != 2 || shapes[3] != cos) // rope_c1
    return emitOpError("needs an input of rank 4 and cos and sin of one shape [positions, size]");
  if (!cos[1].isStatic() || cos[1].constant % 2 != 0 || !isAlwaysAtMost(cos[1], x[3])) // rope_c2
    return emitOpError() << "turns " << toString(cos[1]) << " of " << toString(x[3])
                         << " features; that must be an even part of them";
  if (product(positions) != x[2]) // rope_c3
    return emitOpError() << "has " << toString(positions) << " positions for " << toString(x[2])
                         << " rows";
  results.push_back(x);
  return success();
}

OMNIBAL_SHAPE_RULE(EmbeddingOp) {
  if (shapes[0].size() != 2) // embedding_c1
    return emitOpError("needs a table of rank 2");
  SymbolicShape result = shapes[1];
  result.push_back(shapes[0][1]);
  results.push_back(result);
  return success();
}

OMNIBAL_SHAPE_RULE(EmbeddingGradOp) {
  auto table = getResultShape(*this);
  SymbolicShape rows = shapes[1];
  if (!table || table->size() != 2) // embedding_grad_c1
    return emitOpError("needs a result type [rows, size] of known size");
  rows.push_back((*table)[1]);
  if (rows != shapes[0]) // embedding_grad_c2
    return emitOpError() << "gradient must be " << toString(rows) << ", not "
                         << toString(shapes[0]);
  results.push_back(*table);
  return success();
}

OMNIBAL_SHAPE_RULE(ShiftTokensOp) {
  const SymbolicShape &x = shapes[0];
  if (x.size() != 3 || !x[0].isOne()) // shift_tokens_c1
    return emitOpError() << "needs an input [1, N, C], not " << toString(x);
  if (product(shapes[1]) != x[1]) // shift_tokens_c2
    return emitOpError() << "has " << toString(shapes[1]) << " positions for " << toString(x[1])
                         << " rows";
  if (static_cast<int64_t>(getDistance()) < 0) // shift_tokens_c3
    return emitOpError("needs a distance >= 0");
  results.push_back(x);
  return success();
}

OMNIBAL_SHAPE_RULE(ImageMergeOp) {
  const SymbolicShape &text = shapes[0], &features = shapes[1];
  if (text.size() != 3 || !text[0].isOne() || features.empty() ||
      features.back() != text[2]) // image_merge_c1
    return emitOpError() << "cannot merge features " << toString(features) << " into text "
                         << toString(text);
  if (product(shapes[2]) != text[1]) // image_merge_c2
    return emitOpError() << "has " << toString(shapes[2]) << " image rows for " << toString(text[1])
                         << " tokens";
  results.push_back(text);
  return success();
}

OMNIBAL_SHAPE_RULE(ImageMergeGradOp) {
  auto features = getResultShape(*this, 1);
  if (shapes[0].size() != 3 || !features || features->empty() ||
      features->back() != shapes[0][2]) // image_merge_grad_c1
    return emitOpError("needs a gradient [1, N, C] and a type [.., C] for the features");
  if (product(shapes[1]) != shapes[0][1]) // image_merge_grad_c2
    return emitOpError() << "has " << toString(shapes[1]) << " image rows for "
                         << toString(shapes[0][1]) << " tokens";
  results.append({shapes[0], *features});
  return success();
}

namespace {
/// The smoothing takes less than all of the target's share, and both terms are finite.
template <typename OpT> LogicalResult verifyLossTerms(OpT op) {
  const double smoothing = op.getSmoothing().convertToDouble(), z = op.getZ().convertToDouble();
  if (!(smoothing >= 0 && smoothing < 1))
    return op.emitOpError() << "smoothing is " << smoothing << "; it must be in [0, 1)";
  if (!(z >= 0) || std::isinf(z))
    return op.emitOpError() << "z is " << z << "; it must be a finite number of at least 0";
  return success();
}

/// Rows of logits or hidden states are those of the targets; a leading 1 may be missing.
template <typename OpT>
LogicalResult verifyTargets(OpT op, ArrayRef<SymbolicDim> rows, const SymbolicShape &targets) {
  // cross_entropy_c2, cross_entropy_grad_c2, linear_cross_entropy_c2, linear_cross_entropy_grad_c3,
  // joined_cross_entropy_c3, joined_cross_entropy_grad_c3
  if constexpr (requires { op.getZ(); })
    if (failed(verifyLossTerms(op)))
      return failure();
  if (rows.empty())
    return op.emitOpError("needs logits or hidden states of rank 1 or more");
  if (!sameElementCount(rows.drop_back(), targets))
    return op.emitOpError() << "has " << toString(targets) << " targets for "
                            << toString(rows.drop_back()) << " rows";
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(CrossEntropyOp) {
  if (failed(verifyTargets(*this, shapes[0], shapes[1]))) // cross_entropy_c1
    return failure();
  results.append(getNumResults(), shapes[1]); // loss and, if asked for, prediction
  return success();
}

OMNIBAL_SHAPE_RULE(CrossEntropyGradOp) {
  if (failed(verifyTargets(*this, shapes[0], shapes[1]))) // cross_entropy_grad_c1
    return failure();
  results.append({shapes[1], shapes[0]});
  return success();
}

namespace {
template <typename OpT>
LogicalResult verifyLinearLoss(OpT op, ShapeList shapes, const SymbolicShape &targets) {
  const SymbolicShape &hidden = shapes[0], &weight = shapes[1];
  if (failed(verifyTargets(op, hidden, targets)))
    return failure();
  if (weight.size() != 2 || weight[1] != hidden.back())
    return op.emitOpError() << "weight " << toString(weight) << " does not fit hidden states "
                            << toString(hidden);
  if (op.getBias() && shapes[2] != SymbolicShape{weight[0]})
    return op.emitOpError() << "bias must be [" << toString(weight[0]) << "]";
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(LinearCrossEntropyOp) {
  if (failed(verifyLinearLoss(*this, shapes, shapes.back()))) // linear_cross_entropy_c1
    return failure();
  results.append(getNumResults(), shapes.back()); // loss and, if asked for, prediction
  return success();
}

OMNIBAL_SHAPE_RULE(LinearCrossEntropyGradOp) {
  const SymbolicShape &targets = shapes[getBias() ? 3 : 2];
  if (failed(verifyLinearLoss(*this, shapes, targets))) // linear_cross_entropy_grad_c1
    return failure();
  if (getRowWeights() && shapes.back() != targets) // linear_cross_entropy_grad_c4
    return emitOpError() << "has row_weights " << toString(shapes.back()) << " for targets "
                         << toString(targets);
  results.append({targets, shapes[0], shapes[1]});
  if (getDbias()) {
    if (!getBias()) // linear_cross_entropy_grad_c2
      return emitOpError("has a bias gradient but no bias");
    results.push_back(shapes[2]);
  }
  return success();
}

namespace {
/// The part's words are some of all words.
template <typename OpT> LogicalResult verifyOwnWords(OpT op, const SymbolicShape &weight) {
  const auto first = static_cast<int64_t>(op.getFirst()), all = static_cast<int64_t>(op.getWords());
  if (weight.empty() || !weight[0].isStatic() || first < 0 || first + weight[0].constant > all)
    return op.emitOpError() << "has a weight " << toString(weight) << " of the words from " << first
                            << " on, of " << all;
  return success();
}

/// Numbers of a row that each part states: with the sum of logits where the loss has their mean.
int64_t statisticsOfRow(bool totals) { return totals ? 4 : 3; }

template <typename OpT>
LogicalResult verifyJoined(OpT op, ShapeList shapes, const SymbolicShape &targets,
                           const SymbolicShape &statistics) {
  if (failed(verifyLinearLoss(op, shapes, targets)) || failed(verifyOwnWords(op, shapes[1])))
    return failure();
  SymbolicShape wanted = targets;
  wanted.push_back(statisticsOfRow(!op.getSmoothing().isZero()));
  if (statistics.empty() || SymbolicShape(llvm::drop_begin(statistics)) != wanted)
    return op.emitOpError() << "has statistics " << toString(statistics) << " for targets "
                            << toString(targets) << "; a part states " << toString(wanted);
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(WordStatisticsOp) {
  const SymbolicShape &targets = shapes.back();
  // word_statistics_c1, word_statistics_c2
  if (failed(verifyLinearLoss(*this, shapes, targets)) || failed(verifyOwnWords(*this, shapes[1])))
    return failure();
  SymbolicShape own{SymbolicDim(1)};
  llvm::append_range(own, targets);
  SymbolicShape statistics = own;
  statistics.push_back(statisticsOfRow(getTotals()));
  results.append({statistics, own});
  return success();
}

OMNIBAL_SHAPE_RULE(JoinedCrossEntropyOp) {
  const SymbolicShape &targets = shapes[getBias() ? 3 : 2];
  // joined_cross_entropy_c1, joined_cross_entropy_c2, joined_cross_entropy_c4
  if (failed(verifyJoined(*this, shapes, targets, shapes.back())))
    return failure();
  results.push_back(targets);
  return success();
}

OMNIBAL_SHAPE_RULE(JoinedCrossEntropyGradOp) {
  const unsigned at = getBias() ? 3 : 2;
  // joined_cross_entropy_grad_c1, joined_cross_entropy_grad_c2, joined_cross_entropy_grad_c4
  if (failed(verifyJoined(*this, shapes, shapes[at], shapes[at + 1])))
    return failure();
  if (getRowWeights() && shapes.back() != shapes[at]) // joined_cross_entropy_grad_c6
    return emitOpError() << "has row_weights " << toString(shapes.back()) << " for targets "
                         << toString(shapes[at]);
  results.append({shapes[0], shapes[1]});
  if (getDbias()) {
    if (!getBias()) // joined_cross_entropy_grad_c5
      return emitOpError("has a bias gradient but no bias");
    results.push_back(shapes[2]);
  }
  return success();
}

OMNIBAL_SHAPE_RULE(JoinedPredictionOp) {
  const SymbolicShape &statistics = shapes[0], &predictions = shapes[1], &targets = shapes[2];
  const bool fits = !predictions.empty() && statistics.size() == predictions.size() + 1 &&
                    llvm::equal(llvm::drop_end(statistics), predictions) &&
                    llvm::equal(llvm::drop_begin(predictions), targets);
  if (!fits) // joined_prediction_c1
    return emitOpError() << "has statistics " << toString(statistics) << " and predictions "
                         << toString(predictions) << " for targets " << toString(targets);
  results.push_back(targets);
  return success();
}

namespace {
template <typename OpT> LogicalResult verifyPreference(OpT op, ShapeList shapes) {
  const double beta = op.getBeta().convertToDouble(),
               smoothing = op.getSmoothing().convertToDouble();
  if (!(beta > 0) || std::isinf(beta))
    return op.emitOpError() << "beta is " << beta << "; it must be a finite number above 0";
  if (!(smoothing >= 0 && smoothing < 0.5))
    return op.emitOpError() << "smoothing is " << smoothing << "; it must be in [0, 0.5)";
  if (shapes[0].size() != 1 || shapes[1].size() != 1 || shapes[2] != shapes[0])
    return op.emitOpError() << "has losses " << toString(shapes[0]) << ", borders "
                            << toString(shapes[1]) << " and references " << toString(shapes[2])
                            << "; they must be lists, and losses as long as references";
  return success();
}
} // namespace

OMNIBAL_SHAPE_RULE(PreferenceLossOp) {
  if (failed(verifyPreference(*this, shapes))) // preference_loss_c1, preference_loss_c2
    return failure();
  results.append(getNumResults(), shapes[0]);
  return success();
}

OMNIBAL_SHAPE_RULE(PreferenceLossGradOp) {
  if (failed(verifyPreference(*this, shapes))) // preference_loss_grad_c1, preference_loss_grad_c2
    return failure();
  if (getGrad() && shapes[3] != shapes[0]) // preference_loss_grad_c3
    return emitOpError() << "has a gradient " << toString(shapes[3]) << " of losses "
                         << toString(shapes[0]);
  results.push_back(shapes[0]);
  return success();
}
