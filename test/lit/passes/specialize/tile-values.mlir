// RUN: omnibal-opt %s --omnibal-specialize --split-input-file | FileCheck -enable-var-scope %s

// Pictures behind a batch of 1, from which places of zeros are removed: every tile of a micro-batch is a picture, so
// all are chosen, and what counts them counts tiles.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<1x?x3x4x4xf32
// CHECK-NOT: nonzero
// CHECK-NOT: gather_nd
// CHECK: %[[X:.*]] = omnibal.reshape %arg0 {{.*}} -> tensor<?x3x4x4xf32
// CHECK: %[[N:.*]] = omnibal.neg %[[X]]
// CHECK: return %[[N]]
module {
  func.func @main(%pixels: tensor<?x?x3x4x4xf32> {omnibal.input = "pixel_values"}) -> (tensor<?x3x4x4xf32> {omnibal.output = "logits"}) {
    %shape = omnibal.constant dense<[-1, 3, 4, 4]> : tensor<4xi64>
    %all = omnibal.reshape %pixels, %shape : (tensor<?x?x3x4x4xf32>, tensor<4xi64>) -> tensor<?x3x4x4xf32>
    %zero = omnibal.constant dense<0.0> : tensor<f32>
    %is_zero = omnibal.compare %all, %zero {predicate = 0 : i32} : (tensor<?x3x4x4xf32>, tensor<f32>) -> tensor<?x3x4x4xi1>
    %as_number = omnibal.cast %is_zero : (tensor<?x3x4x4xi1>) -> tensor<?x3x4x4xi64>
    %axes = omnibal.constant dense<[-1, -2, -3]> : tensor<3xi64>
    %zeros = omnibal.reduce %as_number, %axes {kind = 0 : i32} : (tensor<?x3x4x4xi64>, tensor<3xi64>) -> tensor<?xi64>
    %size = omnibal.constant dense<48> : tensor<i64>
    %is_empty = omnibal.compare %zeros, %size {predicate = 0 : i32} : (tensor<?xi64>, tensor<i64>) -> tensor<?xi1>
    %is_there = omnibal.not %is_empty : (tensor<?xi1>) -> tensor<?xi1>
    %places = omnibal.nonzero %is_there : (tensor<?xi1>) -> tensor<1x?xi64>
    %indices = omnibal.transpose %places {permutation = array<i64: 1, 0>} : (tensor<1x?xi64>) -> tensor<?x1xi64>
    %chosen = omnibal.gather_nd %all, %indices {batch_dims = 0 : i64} : (tensor<?x3x4x4xf32>, tensor<?x1xi64>) -> tensor<?x3x4x4xf32>
    %result = omnibal.neg %chosen : (tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32>
    return %result : tensor<?x3x4x4xf32>
  }
}

// -----

// Positions from a mask of valid pixels, all of which are valid: one row for all tiles, looked up once.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[IDS:.*]] = omnibal.constant dense<{{\[}}[2, 3, 4]]> : tensor<1x3xi64>
// CHECK-DAG: %[[TABLE:.*]] = omnibal.get_parameter @table
// CHECK: %[[ROWS:.*]] = omnibal.gather %[[TABLE]], %[[IDS]] {{.*}} -> tensor<1x3x8xf32>
// CHECK: omnibal.expand %[[ROWS]] : (tensor<1x3x8xf32>) -> tensor<?x3x8xf32
module {
  omnibal.parameter @table : tensor<6x8xf32>
  func.func @main(%valid: tensor<?x3x4xi1> {omnibal.input = "mask"}, %pixels: tensor<?x3x8xf32> {omnibal.input = "pixel_values"}) -> (tensor<?x3x8xf32> {omnibal.output = "logits"}) {
    %table = omnibal.get_parameter @table : tensor<6x8xf32>
    %as_number = omnibal.cast %valid : (tensor<?x3x4xi1>) -> tensor<?x3x4xi64>
    %axes = omnibal.constant dense<[2]> : tensor<1xi64>
    %count = omnibal.reduce %as_number, %axes {kind = 0 : i32} : (tensor<?x3x4xi64>, tensor<1xi64>) -> tensor<?x3xi64>
    %shift = omnibal.constant dense<[-2, -1, 0]> : tensor<3xi64>
    %ids = omnibal.add %count, %shift : (tensor<?x3xi64>, tensor<3xi64>) -> tensor<?x3xi64>
    %rows = omnibal.gather %table, %ids {axis = 0 : i64} : (tensor<6x8xf32>, tensor<?x3xi64>) -> tensor<?x3x8xf32>
    %result = omnibal.add %pixels, %rows : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
    return %result : tensor<?x3x8xf32>
  }
}

// -----

// A choice by another property of a picture is not known: pictures stay in doubt.
// CHECK-LABEL: func.func @main
// CHECK: omnibal.nonzero
module {
  func.func @main(%pixels: tensor<?x3x4x4xf32> {omnibal.input = "pixel_values"}) -> (tensor<?x3x4x4xf32> {omnibal.output = "logits"}) {
    %axes = omnibal.constant dense<[1, 2, 3]> : tensor<3xi64>
    %sum = omnibal.reduce %pixels, %axes {kind = 0 : i32} : (tensor<?x3x4x4xf32>, tensor<3xi64>) -> tensor<?xf32>
    %zero = omnibal.constant dense<0.0> : tensor<f32>
    %is_dark = omnibal.compare %sum, %zero {predicate = 0 : i32} : (tensor<?xf32>, tensor<f32>) -> tensor<?xi1>
    %places = omnibal.nonzero %is_dark : (tensor<?xi1>) -> tensor<1x?xi64>
    %indices = omnibal.transpose %places {permutation = array<i64: 1, 0>} : (tensor<1x?xi64>) -> tensor<?x1xi64>
    %updates = omnibal.gather_nd %pixels, %indices {batch_dims = 0 : i64} : (tensor<?x3x4x4xf32>, tensor<?x1xi64>) -> tensor<?x3x4x4xf32>
    %result = omnibal.scatter_nd %pixels, %indices, %updates {reduction = "none"} : (tensor<?x3x4x4xf32>, tensor<?x1xi64>, tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32>
    return %result : tensor<?x3x4x4xf32>
  }
}
