// RUN: omnibal-opt %s --omnibal-find-incremental --split-input-file | FileCheck %s

// Attention within pictures, of tokens to earlier ones, and between: only keys and values of tokens.
// CHECK: module attributes {omnibal.incremental}
module {
  func.func @main(%pictures: tensor<3x2x8x4xf32>, %text: tensor<1x2x16x4xf32>) -> (tensor<3x2x8x4xf32>, tensor<1x2x16x4xf32>) {
    %borders = omnibal.batch_value "cu_seqlens" : tensor<17xi32>
    %p, %pl = omnibal.attention %pictures, %pictures, %pictures {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x8x4xf32>, tensor<3x2x8x4xf32>, tensor<3x2x8x4xf32>) -> (tensor<3x2x8x4xf32>, tensor<3x2x8xf32>)
    %t, %tl = omnibal.attention %text, %text, %text, %borders {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<17xi32>) -> (tensor<1x2x16x4xf32>, tensor<1x2x16xf32>)
    return %p, %t : tensor<3x2x8x4xf32>, tensor<1x2x16x4xf32>
  }
}

// -----

// Tokens that see later ones: what has been computed for the earlier ones changes with each token.
// CHECK: module {
module attributes {omnibal.incremental} {
  func.func @main(%text: tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32> {
    %borders = omnibal.batch_value "cu_seqlens" : tensor<17xi32>
    %t, %tl = omnibal.attention %text, %text, %text, %borders {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<17xi32>) -> (tensor<1x2x16x4xf32>, tensor<1x2x16xf32>)
    return %t : tensor<1x2x16x4xf32>
  }
}

// -----

// Rows of earlier tokens, which nobody keeps.
// CHECK: module {
module {
  func.func @main(%text: tensor<1x16x4xf32>) -> tensor<1x16x4xf32> {
    %positions = omnibal.batch_value "positions" : tensor<16xi32>
    %s = omnibal.shift_tokens %text, %positions {distance = 2 : i64} : (tensor<1x16x4xf32>, tensor<16xi32>) -> tensor<1x16x4xf32>
    return %s : tensor<1x16x4xf32>
  }
}

// -----

// Rows of any tokens.
#tokens = affine_map<(d0, d1) -> (d1, 4)>
// CHECK: module {
module {
  func.func @main(%text: tensor<?x4xf32, #tokens>, %which: tensor<3xi32>) -> tensor<3x4xf32> {
    %g = omnibal.gather %text, %which {axis = 0 : i64} : (tensor<?x4xf32, #tokens>, tensor<3xi32>) -> tensor<3x4xf32>
    return %g : tensor<3x4xf32>
  }
}

// -----

// Rows of a table.
// CHECK: module attributes {omnibal.incremental}
module {
  func.func @main(%table: tensor<9x4xf32>, %which: tensor<3xi32>) -> tensor<3x4xf32> {
    %g = omnibal.gather %table, %which {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    return %g : tensor<3x4xf32>
  }
}
