// RUN: omnibal-opt %s --omnibal-form-layers | FileCheck -enable-var-scope %s

// A text model without any name that helps: three equal blocks are found by their structure; the
// table is read by the first layer and, tied, by the head.
#ids = affine_map<(d0, d1) -> (1, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#borders = affine_map<(d0, d1) -> (d1 + 1)>
#text = affine_map<(d0, d1) -> (1, d1, 8)>
#split = affine_map<(d0, d1) -> (1, d1, 2, 4)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#lse = affine_map<(d0, d1) -> (1, 2, d1)>
#logits = affine_map<(d0, d1) -> (1, d1, 32)>
module {
  omnibal.parameter @table : tensor<32x8xf32>
  omnibal.parameter @zebra.w : tensor<8x8xf32>
  omnibal.parameter @apple.w : tensor<8x8xf32>
  omnibal.parameter @mango.w : tensor<8x8xf32>
  // CHECK-LABEL: func.func @main
  // CHECK: %[[T:.*]] = omnibal.get_parameter @table
  // CHECK: %[[E:.*]] = omnibal.layer "language.embedding" language inputs() parameters(%[[T]])
  // CHECK: %[[W0:.*]] = omnibal.get_parameter @zebra.w
  // CHECK-NEXT: %[[B0:.*]] = omnibal.layer "language.layers.0" language inputs(%[[E]]) parameters(%[[W0]])
  // CHECK: batch_value "cu_seqlens"
  // CHECK: %[[W1:.*]] = omnibal.get_parameter @apple.w
  // CHECK-NEXT: %[[B1:.*]] = omnibal.layer "language.layers.1" language inputs(%[[B0]]) parameters(%[[W1]])
  // CHECK: batch_value "cu_seqlens"
  // CHECK: %[[B2:.*]] = omnibal.layer "language.layers.2" language inputs(%[[B1]])
  // CHECK: %[[H:.*]] = omnibal.layer "head" head inputs(%[[B2]]) parameters(%[[T]])
  // CHECK: return %[[H]]
  func.func @main() -> (tensor<1x?x32xf32, #logits> {omnibal.output = "logits"}) {
    %table = omnibal.get_parameter @table : tensor<32x8xf32>
    %row = omnibal.batch_value "input_ids" : tensor<?xi32, #row>
    %ids = omnibal.reshape %row : (tensor<?xi32, #row>) -> tensor<1x?xi32, #ids>
    %x = omnibal.embedding %table, %ids : (tensor<32x8xf32>, tensor<1x?xi32, #ids>) -> tensor<1x?x8xf32, #text>
    %b = omnibal.get_parameter @zebra.w : tensor<8x8xf32>
    %bn = omnibal.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-6 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %bh = omnibal.reshape %bn : (tensor<1x?x8xf32, #text>) -> tensor<1x?x2x4xf32, #split>
    %bq = omnibal.transpose %bh {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x2x4xf32, #split>) -> tensor<1x2x?x4xf32, #heads>
    %bs = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #borders>
    %ba, %bl = omnibal.attention %bq, %bq, %bq, %bs {mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<?xi32, #borders>) -> (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?xf32, #lse>)
    %bt = omnibal.transpose %ba {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x?x2x4xf32, #split>
    %bm = omnibal.reshape %bt : (tensor<1x?x2x4xf32, #split>) -> tensor<1x?x8xf32, #text>
    %br = omnibal.add %x, %bm : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %bp = omnibal.linear %br, %b {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x?x8xf32, #text>, tensor<8x8xf32>) -> tensor<1x?x8xf32, #text>
    %bz = omnibal.add %br, %bp : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %c = omnibal.get_parameter @apple.w : tensor<8x8xf32>
    %cn = omnibal.rms_norm %bz {axis = 2 : i64, epsilon = 1.0e-6 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %ch = omnibal.reshape %cn : (tensor<1x?x8xf32, #text>) -> tensor<1x?x2x4xf32, #split>
    %cq = omnibal.transpose %ch {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x2x4xf32, #split>) -> tensor<1x2x?x4xf32, #heads>
    %cs = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #borders>
    %ca, %cl = omnibal.attention %cq, %cq, %cq, %cs {mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<?xi32, #borders>) -> (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?xf32, #lse>)
    %ct = omnibal.transpose %ca {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x?x2x4xf32, #split>
    %cm = omnibal.reshape %ct : (tensor<1x?x2x4xf32, #split>) -> tensor<1x?x8xf32, #text>
    %cr = omnibal.add %bz, %cm : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %cp = omnibal.linear %cr, %c {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x?x8xf32, #text>, tensor<8x8xf32>) -> tensor<1x?x8xf32, #text>
    %cz = omnibal.add %cr, %cp : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %d = omnibal.get_parameter @mango.w : tensor<8x8xf32>
    %dn = omnibal.rms_norm %cz {axis = 2 : i64, epsilon = 1.0e-6 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %dh = omnibal.reshape %dn : (tensor<1x?x8xf32, #text>) -> tensor<1x?x2x4xf32, #split>
    %dq = omnibal.transpose %dh {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x2x4xf32, #split>) -> tensor<1x2x?x4xf32, #heads>
    %ds = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #borders>
    %da, %dl = omnibal.attention %dq, %dq, %dq, %ds {mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<?xi32, #borders>) -> (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?xf32, #lse>)
    %dt = omnibal.transpose %da {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x?x2x4xf32, #split>
    %dm = omnibal.reshape %dt : (tensor<1x?x2x4xf32, #split>) -> tensor<1x?x8xf32, #text>
    %dr = omnibal.add %cz, %dm : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %dp = omnibal.linear %dr, %d {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x?x8xf32, #text>, tensor<8x8xf32>) -> tensor<1x?x8xf32, #text>
    %dz = omnibal.add %dr, %dp : (tensor<1x?x8xf32, #text>, tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %n = omnibal.rms_norm %dz {axis = 2 : i64, epsilon = 1.0e-6 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x8xf32, #text>) -> tensor<1x?x8xf32, #text>
    %logits = omnibal.linear %n, %table {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x?x8xf32, #text>, tensor<32x8xf32>) -> tensor<1x?x32xf32, #logits>
    return %logits : tensor<1x?x32xf32, #logits>
  }
}
