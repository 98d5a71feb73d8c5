// RUN: omnibal-opt %s --split-input-file --omnibal-attach-loss | FileCheck %s -enable-var-scope

#n = affine_map<(d0, d1) -> (1, d1, 8)>
#w = affine_map<(d0, d1) -> (1, d1, 11)>
!h = tensor<1x?x8xf32, #n>
!logits = tensor<1x?x11xf32, #w>

// Logits that are a linear map need not be made; the scale moves into the loss, to the bias too.
// CHECK-LABEL: func.func @main
// CHECK-SAME: omnibal.output = "logits"
// CHECK-SAME: omnibal.result = "loss"
// CHECK-SAME: omnibal.result = "prediction"
// CHECK: %[[HEAD:.*]]:3 = omnibal.layer "head" head
// CHECK-SAME: omnibal.outputs = ["output", "loss", "prediction"]
// CHECK: (%[[X:.*]]: tensor<1x?x8xf32, {{.*}}>, %[[W:.*]]: tensor<11x8xf32>, %[[B:.*]]: tensor<11xf32>)
// CHECK: %[[LOGITS:.*]] = omnibal.mul
// CHECK: %[[TARGETS:.*]] = omnibal.batch_value "targets"
// CHECK: %[[HIDDEN:.*]] = omnibal.reshape %[[X]]
// CHECK: %[[SCALED:.*]] = omnibal.mul %[[B]]
// CHECK: %[[LOSS:.*]], %[[PREDICTION:.*]] = omnibal.linear_cross_entropy %[[HIDDEN]], %[[W]], %[[SCALED]], %[[TARGETS]]
// CHECK-SAME: scale = 2.500000e-01
// CHECK: omnibal.yield %[[LOGITS]], %[[LOSS]], %[[PREDICTION]]
// CHECK: return %[[HEAD]]#0, %[[HEAD]]#1, %[[HEAD]]#2
omnibal.parameter @w : tensor<11x8xf32>
omnibal.parameter @b : tensor<11xf32>
func.func @main() -> (!logits {omnibal.output = "logits"}) {
  %w = omnibal.get_parameter @w : tensor<11x8xf32>
  %b = omnibal.get_parameter @b : tensor<11xf32>
  %x = omnibal.layer "language.embedding" language inputs() parameters() : () -> !h {
    %0 = omnibal.batch_value "embeddings" : !h
    omnibal.yield %0 : !h
  }
  %logits = omnibal.layer "head" head inputs(%x) parameters(%w, %b) : (!h, tensor<11x8xf32>, tensor<11xf32>) -> !logits {
  ^bb0(%0: !h, %1: tensor<11x8xf32>, %2: tensor<11xf32>):
    %3 = omnibal.linear %0, %1, %2 : (!h, tensor<11x8xf32>, tensor<11xf32>) -> !logits
    %4 = omnibal.constant dense<0.25> : tensor<f32>
    %5 = omnibal.mul %3, %4 : (!logits, tensor<f32>) -> !logits
    omnibal.yield %5 : !logits
  }
  return %logits : !logits
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
#w = affine_map<(d0, d1) -> (1, d1, 11)>
!h = tensor<1x?x8xf32, #n>
!logits = tensor<1x?x11xf32, #w>

// Anything else works on the logits.
// CHECK-LABEL: func.func @main
// CHECK: %[[LOGITS:.*]] = omnibal.tanh
// CHECK: %[[TARGETS:.*]] = omnibal.batch_value "targets"
// CHECK: %[[ROWS:.*]] = omnibal.reshape %[[LOGITS]]
// CHECK: omnibal.cross_entropy %[[ROWS]], %[[TARGETS]]
omnibal.parameter @w : tensor<11x8xf32>
func.func @main() -> !logits {
  %w = omnibal.get_parameter @w : tensor<11x8xf32>
  %x = omnibal.layer "language.embedding" language inputs() parameters() : () -> !h {
    %0 = omnibal.batch_value "embeddings" : !h
    omnibal.yield %0 : !h
  }
  %logits = omnibal.layer "head" head inputs(%x) parameters(%w) : (!h, tensor<11x8xf32>) -> !logits {
  ^bb0(%0: !h, %1: tensor<11x8xf32>):
    %3 = omnibal.linear %0, %1 : (!h, tensor<11x8xf32>) -> !logits
    %4 = omnibal.tanh %3 : (!logits) -> !logits
    omnibal.yield %4 : !logits
  }
  return %logits : !logits
}
