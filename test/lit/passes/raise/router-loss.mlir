// RUN: omnibal-opt %s --omnibal-select-logits --omnibal-raise-router-loss --omnibal-verify-raised | FileCheck %s --check-prefix=SUMS -enable-var-scope
// RUN: omnibal-opt %s --omnibal-select-logits --omnibal-raise-router-loss --omnibal-verify-raised --omnibal-form-layers | FileCheck %s --check-prefix=LAYERS -enable-var-scope
// RUN: omnibal-opt %s --omnibal-select-logits --omnibal-raise-router-loss --omnibal-form-layers --omnibal-attach-loss | FileCheck %s --check-prefix=LOSS -enable-var-scope
// RUN: omnibal-opt %s --omnibal-select-logits --omnibal-raise-router-loss --omnibal-form-layers --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=CALLS -enable-var-scope
// RUN: sed 's/coefficient = 0.25 : f64/coefficient = 0.0 : f64/' %s | omnibal-opt --omnibal-select-logits | FileCheck %s --check-prefix=OFF -enable-var-scope

// Two equal blocks whose routers' shares are added up over the tokens, the sums of the blocks, and
// the loss made of them. The routers' loss stands before the logits, hidden states beside them.
#row = affine_map<(d0, d1) -> (d1)>
#text = affine_map<(d0, d1) -> (d1, 8)>
#shares = affine_map<(d0, d1) -> (d1, 4)>
#line = affine_map<(d0, d1) -> (d1, 32)>
#logits = affine_map<(d0, d1) -> (1, d1, 32)>
module attributes {omnibal.router_loss_coefficient = 0.25 : f64} {
  omnibal.parameter @table : tensor<32x8xf32>
  omnibal.parameter @a.router : tensor<4x8xf32>
  omnibal.parameter @a.out : tensor<8x4xf32>
  omnibal.parameter @b.router : tensor<4x8xf32>
  omnibal.parameter @b.out : tensor<8x4xf32>

  // The logits come first. Rows that are no tokens take no part in sums over them.
  // SUMS: func.func @main() -> (tensor<1x?x32xf32, #{{.*}}> {omnibal.output = "logits"}, tensor<f32> {omnibal.output = "router_loss"})
  // SUMS: %[[P:.*]] = omnibal.softmax
  // SUMS: %[[REAL:.*]] = omnibal.batch_value "real_tokens" : tensor<?xi32
  // SUMS: %[[ONES:.*]] = omnibal.cast %[[REAL]]
  // SUMS: %[[COLUMN:.*]] = omnibal.reshape %[[ONES]] {{.*}} -> tensor<?x1xf32
  // SUMS: %[[MASKED:.*]] = omnibal.mul %[[P]], %[[COLUMN]]
  // SUMS: omnibal.reduce %[[MASKED]]

  // Each block takes its own sums, the head adds them up. Both blocks are alike.
  // LAYERS: %[[B0:.*]]:2 = omnibal.layer "language.layers.0" language
  // LAYERS: omnibal.yield %{{.*}}, %{{.*}} : tensor<?x8xf32, #{{.*}}>, tensor<4xf32>
  // LAYERS: %[[B1:.*]]:2 = omnibal.layer "language.layers.1" language inputs(%[[B0]]#0)
  // LAYERS: omnibal.reduce
  // LAYERS: omnibal.yield %{{.*}}, %{{.*}} : tensor<?x8xf32, #{{.*}}>, tensor<4xf32>
  // LAYERS: %[[HEAD:.*]]:2 = omnibal.layer "head" head inputs(%[[B1]]#0, %[[B0]]#1, %[[B1]]#1)
  // LAYERS: return %[[HEAD]]#0, %[[HEAD]]#1

  // LOSS: {omnibal.output = "logits"}, {{.*}} {omnibal.result = "loss"}, {{.*}} {omnibal.result = "prediction"}, tensor<f32> {omnibal.result = "router_loss"}
  // LOSS: %[[HEAD:.*]]:4 = omnibal.layer "head"
  // LOSS-SAME: omnibal.outputs = ["output", "loss", "prediction", "router_loss"]
  // LOSS: omnibal.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x?x32xf32, #{{.*}}>, tensor<?xf32, #{{.*}}>, tensor<?xi32, #{{.*}}>, tensor<f32>
  // LOSS: return %[[HEAD]]#0, %[[HEAD]]#1, %[[HEAD]]#2, %[[HEAD]]#3

  // What it counts in the step comes from the runtime, and is where its gradient begins.
  // CALLS: call_layer "language.layers.0" language @language_1
  // CALLS: call_layer "language.layers.1" language @language_1
  // CALLS-LABEL: func.func @language_1.backward(
  // CALLS-SAME: tensor<4xf32> {omnibal.float32, omnibal.index = 1 : i64, omnibal.role = "grad_output"}
  // CALLS-LABEL: func.func @head_0.backward(
  // CALLS-SAME: tensor<4xf32> {omnibal.float32, omnibal.index = 1 : i64, omnibal.role = "grad_input"}
  // CALLS-SAME: tensor<f32> {omnibal.index = 3 : i64, omnibal.role = "router_loss"}
  // CALLS: omnibal.batch_value "router_loss_weight" : tensor<f32>
  // CALLS-LABEL: func.func @head_0.evaluate(
  // CALLS-SAME: omnibal.role = "router_loss"

  // OFF: func.func @main() -> (tensor<1x?x32xf32, #{{.*}}> {omnibal.output = "logits"}) {
  // OFF-NOT: omnibal.reduce
  func.func @main() -> (tensor<f32> {omnibal.output = "router_loss"}, tensor<?x8xf32, #text> {omnibal.output = "states"},
                        tensor<1x?x32xf32, #logits> {omnibal.output = "logits"}) {
    %table = omnibal.get_parameter @table : tensor<32x8xf32>
    %ids = omnibal.batch_value "input_ids" : tensor<?xi32, #row>
    %x = omnibal.embedding %table, %ids : (tensor<32x8xf32>, tensor<?xi32, #row>) -> tensor<?x8xf32, #text>
    %ar = omnibal.get_parameter @a.router : tensor<4x8xf32>
    %ao = omnibal.get_parameter @a.out : tensor<8x4xf32>
    %ag = omnibal.linear %x, %ar {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x8xf32, #text>, tensor<4x8xf32>) -> tensor<?x4xf32, #shares>
    %ap = omnibal.softmax %ag {axis = 1 : i64} : (tensor<?x4xf32, #shares>) -> tensor<?x4xf32, #shares>
    %as = omnibal.reduce %ap {kind = 0 : i32, axes = array<i64: 0>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x4xf32, #shares>) -> tensor<4xf32>
    %am = omnibal.linear %ap, %ao {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xf32, #shares>, tensor<8x4xf32>) -> tensor<?x8xf32, #text>
    %ay = omnibal.add %x, %am : (tensor<?x8xf32, #text>, tensor<?x8xf32, #text>) -> tensor<?x8xf32, #text>
    %br = omnibal.get_parameter @b.router : tensor<4x8xf32>
    %bo = omnibal.get_parameter @b.out : tensor<8x4xf32>
    %bg = omnibal.linear %ay, %br {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x8xf32, #text>, tensor<4x8xf32>) -> tensor<?x4xf32, #shares>
    %bp = omnibal.softmax %bg {axis = 1 : i64} : (tensor<?x4xf32, #shares>) -> tensor<?x4xf32, #shares>
    %bs = omnibal.reduce %bp {kind = 0 : i32, axes = array<i64: 0>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x4xf32, #shares>) -> tensor<4xf32>
    %bm = omnibal.linear %bp, %bo {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xf32, #shares>, tensor<8x4xf32>) -> tensor<?x8xf32, #text>
    %by = omnibal.add %ay, %bm : (tensor<?x8xf32, #text>, tensor<?x8xf32, #text>) -> tensor<?x8xf32, #text>
    %n = omnibal.tanh %by : (tensor<?x8xf32, #text>) -> tensor<?x8xf32, #text>
    %l = omnibal.linear %n, %table {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x8xf32, #text>, tensor<32x8xf32>) -> tensor<?x32xf32, #line>
    %logits = omnibal.reshape %l : (tensor<?x32xf32, #line>) -> tensor<1x?x32xf32, #logits>
    %sum = omnibal.add %as, %bs : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %square = omnibal.mul %sum, %sum : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = omnibal.reduce %square {kind = 0 : i32, axes = array<i64: 0>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> tensor<f32>
    return %loss, %by, %logits : tensor<f32>, tensor<?x8xf32, #text>, tensor<1x?x32xf32, #logits>
  }
}
