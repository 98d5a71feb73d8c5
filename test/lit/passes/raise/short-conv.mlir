// RUN: omnibal-opt %s --omnibal-raise-short-conv --split-input-file | FileCheck -enable-var-scope %s

// A causal convolution of each channel along the tokens, padded on both sides and cut: rows of the same sample.
#channels = affine_map<(d0, d1) -> (1, 4, d1)>
#longer = affine_map<(d0, d1) -> (1, 4, d1 + 2)>

// CHECK-LABEL: func.func @causal
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x4x?xf32
// CHECK-NOT: omnibal.conv
// CHECK: %[[W:.*]] = omnibal.get_parameter @w
// CHECK: %[[B:.*]] = omnibal.get_parameter @b
// CHECK: %[[ROWS:.*]] = omnibal.transpose %[[X]] {permutation = array<i64: 0, 2, 1>}
// CHECK: %[[P:.*]] = omnibal.batch_value "positions" : tensor<?xi32
// CHECK: %[[TWO:.*]] = omnibal.shift_tokens %[[ROWS]], %[[P]] {distance = 2 : i64}
// CHECK: %[[W0:.*]] = omnibal.slice %[[W]] {begin = array<i64: 0, 0, 0>
// CHECK: %[[W0V:.*]] = omnibal.reshape %[[W0]]
// CHECK: %[[T0:.*]] = omnibal.mul %[[TWO]], %[[W0V]]
// CHECK: %[[ONE:.*]] = omnibal.shift_tokens %[[ROWS]], %[[P]] {distance = 1 : i64}
// CHECK: omnibal.slice %[[W]] {begin = array<i64: 0, 0, 1>
// CHECK: %[[T1:.*]] = omnibal.mul %[[ONE]]
// CHECK: %[[S1:.*]] = omnibal.add %[[T0]], %[[T1]]
// CHECK: omnibal.slice %[[W]] {begin = array<i64: 0, 0, 2>
// CHECK: %[[T2:.*]] = omnibal.mul %[[ROWS]]
// CHECK: %[[S2:.*]] = omnibal.add %[[S1]], %[[T2]]
// CHECK: %[[S3:.*]] = omnibal.add %[[S2]], %[[B]]
// CHECK: omnibal.transpose %[[S3]] {permutation = array<i64: 0, 2, 1>}
module {
  omnibal.parameter @w : tensor<4x1x3xf32>
  omnibal.parameter @b : tensor<4xf32>
  func.func @causal(%x: tensor<1x4x?xf32, #channels>) -> tensor<1x4x?xf32, #channels> {
    %w = omnibal.get_parameter @w : tensor<4x1x3xf32>
    %b = omnibal.get_parameter @b : tensor<4xf32>
    %c = omnibal.conv %x, %w, %b {strides = array<i64: 1>, pads = array<i64: 2, 2>, dilations = array<i64: 1>, group = 4 : i64} : (tensor<1x4x?xf32, #channels>, tensor<4x1x3xf32>, tensor<4xf32>) -> tensor<1x4x?xf32, #longer>
    %y = omnibal.slice %c {begin = array<i64: 0, 0, 0>, step = array<i64: 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x4x?xf32, #longer>) -> tensor<1x4x?xf32, #channels>
    return %y : tensor<1x4x?xf32, #channels>
  }
}

// -----

// One that looks ahead stays, for the verifier to refuse.
#channels = affine_map<(d0, d1) -> (1, 4, d1)>
// CHECK-LABEL: func.func @ahead
// CHECK: omnibal.conv
module {
  omnibal.parameter @w : tensor<4x1x3xf32>
  func.func @ahead(%x: tensor<1x4x?xf32, #channels>) -> tensor<1x4x?xf32, #channels> {
    %w = omnibal.get_parameter @w : tensor<4x1x3xf32>
    %c = omnibal.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 4 : i64} : (tensor<1x4x?xf32, #channels>, tensor<4x1x3xf32>) -> tensor<1x4x?xf32, #channels>
    return %c : tensor<1x4x?xf32, #channels>
  }
}
