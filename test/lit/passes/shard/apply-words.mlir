// RUN: echo '{"format": "omnibal.layouts/1", "parameters": [{"match": "words", "layout": "split(0 : 131)"}]}' > %t.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-assign-layouts="layouts=%t.json" --omnibal-verify-layouts \
// RUN:   --test-apply-layouts="parts=2" | FileCheck %s
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=8" --omnibal-assign-layouts="layouts=%t.json" --omnibal-verify-layouts \
// RUN:   --test-apply-layouts="parts=8" | omnibal-opt --mlir-print-op-generic > /dev/null
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-assign-layouts="layouts=%t.json" --omnibal-materialize-layers \
// RUN:   | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=64 price=100" --omnibal-verify-layouts \
// RUN:   --test-apply-layouts="parts=2" | FileCheck %s --check-prefix=SEARCHED

// A search finds it too, where memory has a price.
// SEARCHED: @words : tensor<131x8xf32> {omnibal.held = #plan.layout<split(0 : 131)>}
// SEARCHED-LABEL: func.func @head_part1(
// SEARCHED: omnibal.word_statistics

// A head of 131 words, of which part 0 has the first 65. Parts tell each other three numbers of each row and which word has
// the largest logit; the loss follows from these, and logits that are given are gathered.
// CHECK-LABEL: func.func @head_part0(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32, #{{.*}}>, %[[W:.*]]: tensor<65x8xf32>)
// CHECK-DAG: %[[T:.*]] = omnibal.batch_value "targets"
// CHECK-DAG: %[[H:.*]] = omnibal.reshard %[[X]] from <whole> to <copied> parts 2
// CHECK: %[[L:.*]] = omnibal.linear %[[H]], %[[W]] : {{.*}} -> tensor<?x65xf32
// CHECK: %[[S:.*]], %[[P:.*]] = omnibal.word_statistics %[[H]], %[[W]], %[[T]] {first = 0 : i64, words = 131 : i64} : {{.*}} -> (tensor<1x?x3xf32, #{{.*}}>, tensor<1x?xi32, #{{.*}}>)
// CHECK: %[[A:.*]] = omnibal.reshard %[[S]] from <split(0 : 2)> to <whole> parts 2 of tensor<2x?x3xf32, #{{.*}}>
// CHECK: %[[LOSS:.*]] = omnibal.joined_cross_entropy %[[H]], %[[W]], %[[T]], %[[A]] {first = 0 : i64, words = 131 : i64}
// CHECK: %[[B:.*]] = omnibal.reshard %[[P]] from <split(0 : 2)> to <whole> parts 2 of tensor<2x?xi32, #{{.*}}>
// CHECK: %[[PREDICTION:.*]] = omnibal.joined_prediction %[[A]], %[[B]], %[[T]]
// CHECK: %[[G:.*]] = omnibal.reshard %[[L]] from <split(1 : 131)> to <whole> parts 2
// CHECK: return %[[G]], %[[LOSS]], %[[PREDICTION]]
// CHECK-LABEL: func.func @head_part1(
// CHECK-SAME: tensor<66x8xf32>)
// CHECK: omnibal.word_statistics {{.*}} {first = 65 : i64, words = 131 : i64}

// In training, forward keeps the statistics, and nothing is predicted. Backward meets once, for the gradient of what came in.
// FUNCTIONS-LABEL: func.func @head_0.forward(
// FUNCTIONS: omnibal.word_statistics
// FUNCTIONS-NEXT: omnibal.reshard {{.*}} of tensor<2x?x3xf32
// FUNCTIONS-NEXT: return
// FUNCTIONS-LABEL: func.func @head_0.backward(
// FUNCTIONS-NOT: omnibal.word_statistics
// FUNCTIONS-NOT: omnibal.joined_prediction
// FUNCTIONS-DAG: omnibal.joined_cross_entropy_grad {{.*}} -> (tensor<?x8xf32, #{{.*}}>, tensor<65x8xf32>)
// FUNCTIONS-DAG: omnibal.reshard {{.*}} from <partial> to <whole> parts 2 of tensor<?x8xf32
// FUNCTIONS-DAG: omnibal.joined_cross_entropy %
// FUNCTIONS-LABEL: func.func @head_0.evaluate(
// FUNCTIONS: omnibal.joined_prediction
// FUNCTIONS-LABEL: func.func @head_0.inference(
// FUNCTIONS: omnibal.reshard {{.*}} from <split(1 : 131)> to <whole>
// FUNCTIONS-LABEL: func.func @head_1.forward(

#N8 = affine_map<(d0, d1) -> (d1, 8)>
#NW = affine_map<(d0, d1) -> (d1, 131)>
#N = affine_map<(d0, d1) -> (d1)>

omnibal.parameter @rows : tensor<5x8xf32>
omnibal.parameter @words : tensor<131x8xf32>

func.func @main() -> (tensor<?x131xf32, #NW>, tensor<?xf32, #N>, tensor<?xi32, #N>) {
  %pr = omnibal.get_parameter @rows : tensor<5x8xf32>
  %pw = omnibal.get_parameter @words : tensor<131x8xf32>
  %x = omnibal.layer "embedding" language inputs() parameters(%pr) : (tensor<5x8xf32>) -> tensor<?x8xf32, #N8> {
  ^bb0(%t: tensor<5x8xf32>):
    %ids = omnibal.batch_value "input_ids" : tensor<?xi32, #N>
    %e = omnibal.embedding %t, %ids : (tensor<5x8xf32>, tensor<?xi32, #N>) -> tensor<?x8xf32, #N8>
    omnibal.yield %e : tensor<?x8xf32, #N8>
  }
  %r:3 = omnibal.layer "head" head inputs(%x) parameters(%pw) attributes {omnibal.outputs = ["output", "loss", "prediction"]}
      : (tensor<?x8xf32, #N8>, tensor<131x8xf32>) -> (tensor<?x131xf32, #NW>, tensor<?xf32, #N>, tensor<?xi32, #N>) {
  ^bb0(%in: tensor<?x8xf32, #N8>, %w: tensor<131x8xf32>):
    %t = omnibal.batch_value "targets" : tensor<?xi32, #N>
    %logits = omnibal.linear %in, %w : (tensor<?x8xf32, #N8>, tensor<131x8xf32>) -> tensor<?x131xf32, #NW>
    %loss, %prediction = omnibal.linear_cross_entropy %in, %w, %t
      : (tensor<?x8xf32, #N8>, tensor<131x8xf32>, tensor<?xi32, #N>) -> (tensor<?xf32, #N>, tensor<?xi32, #N>)
    omnibal.yield %logits, %loss, %prediction : tensor<?x131xf32, #NW>, tensor<?xf32, #N>, tensor<?xi32, #N>
  }
  return %r#0, %r#1, %r#2 : tensor<?x131xf32, #NW>, tensor<?xf32, #N>, tensor<?xi32, #N>
}
