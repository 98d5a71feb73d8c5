// RUN: omnibal-opt %s --omnibal-attach-loss="kind=dpo beta=0.3 smoothing=0.1" | FileCheck %s -enable-var-scope
// RUN: omnibal-opt %s --omnibal-attach-loss="kind=dpo" --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS -enable-var-scope
// RUN: not omnibal-opt %s --omnibal-attach-loss="kind=ppo" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not omnibal-opt %s --omnibal-attach-loss="kind=dpo z=0.1" 2>&1 | FileCheck %s --check-prefix=TERM
// RUN: not omnibal-opt %s --omnibal-attach-loss="kind=dpo smoothing=0.5" 2>&1 | FileCheck %s --check-prefix=SMOOTHING

// KIND: omnibal-attach-loss: kind is 'ppo'; known are cross-entropy and dpo
// TERM: a z-loss is added to cross entropies, and the loss of pairs has none
// SMOOTHING: it must be in [0, 0.5)

// The loss of pairs stands on top of the tokens' cross entropies, which have no smoothing of their own.
// CHECK: module attributes {omnibal.preference_beta = 3.000000e-01 : f64}
// CHECK-LABEL: func.func @main
// CHECK-SAME: omnibal.result = "loss"
// CHECK-SAME: omnibal.result = "prediction"
// CHECK-SAME: omnibal.result = "chosen_reward"
// CHECK-SAME: omnibal.result = "rejected_reward"
// CHECK-SAME: omnibal.result = "preferred"
// CHECK: %[[HEAD:.*]]:6 = omnibal.layer "head" head
// CHECK-SAME: omnibal.outputs = ["output", "loss", "prediction", "chosen_reward", "rejected_reward", "preferred"]
// CHECK: %[[LOSSES:.*]], %[[PREDICTION:.*]] = omnibal.linear_cross_entropy
// CHECK-NOT: smoothing
// CHECK-SAME: ->
// CHECK: %[[BORDERS:.*]] = omnibal.batch_value "cu_seqlens"
// CHECK: %[[REFERENCE:.*]] = omnibal.batch_value "reference"
// CHECK: %[[LOSS:.*]], %[[CHOSEN:.*]], %[[REJECTED:.*]], %[[PREFERRED:.*]] = omnibal.preference_loss %[[LOSSES]], %[[BORDERS]], %[[REFERENCE]]
// CHECK-SAME: beta = 3.000000e-01
// CHECK-SAME: smoothing = 1.000000e-01
// CHECK: omnibal.yield %{{.*}}, %[[LOSS]], %[[PREDICTION]], %[[CHOSEN]], %[[REJECTED]], %[[PREFERRED]]

// The forward keeps a number a token, from which the backward knows what each row counts.
// FUNCTIONS-LABEL: func.func @head_0.forward
// FUNCTIONS: %[[SAVED:[a-z_0-9]+]], %{{.*}} = omnibal.linear_cross_entropy
// FUNCTIONS-NOT: omnibal.preference_loss
// FUNCTIONS: return %[[SAVED]] :
// FUNCTIONS-LABEL: func.func @head_0.backward
// FUNCTIONS-SAME: omnibal.role = "loss"
// FUNCTIONS-SAME: omnibal.role = "chosen_reward"
// FUNCTIONS-SAME: omnibal.role = "rejected_reward"
// FUNCTIONS-SAME: omnibal.role = "preferred"
// FUNCTIONS: %[[WEIGHTS:.*]] = omnibal.preference_loss_grad
// FUNCTIONS: omnibal.linear_cross_entropy_grad {{.*}}, %[[WEIGHTS]] {operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>
// FUNCTIONS-NOT: omnibal.linear_cross_entropy %
// FUNCTIONS-LABEL: func.func @head_0.evaluate
// FUNCTIONS-SAME: omnibal.role = "prediction"
// FUNCTIONS-SAME: omnibal.role = "chosen_reward"

#n = affine_map<(d0, d1) -> (1, d1, 8)>
#w = affine_map<(d0, d1) -> (1, d1, 11)>
!h = tensor<1x?x8xf32, #n>
!logits = tensor<1x?x11xf32, #w>
omnibal.parameter @w : tensor<11x8xf32>
func.func @main() -> (!logits {omnibal.output = "logits"}) {
  %w = omnibal.get_parameter @w : tensor<11x8xf32>
  %x = omnibal.layer "language.embedding" language inputs() parameters() : () -> !h {
    %0 = omnibal.batch_value "embeddings" : !h
    omnibal.yield %0 : !h
  }
  %logits = omnibal.layer "head" head inputs(%x) parameters(%w) : (!h, tensor<11x8xf32>) -> !logits {
  ^bb0(%0: !h, %1: tensor<11x8xf32>):
    %2 = omnibal.linear %0, %1 : (!h, tensor<11x8xf32>) -> !logits
    omnibal.yield %2 : !logits
  }
  return %logits : !logits
}
