// RUN: omnibal-opt %s --omnibal-raise-embedding | FileCheck -enable-var-scope %s

// Constant rows of a parameter, by tuples of one index: numbers that kernels take, of the rows' own shape.
// CHECK-LABEL: func.func @tuples
// CHECK: %[[IDS:.*]] = omnibal.constant dense<{{\[}}[2, 1], [1, 0]]> : tensor<2x2xi32>
// CHECK: omnibal.embedding %{{.*}}, %[[IDS]] : (tensor<3x4xf32>, tensor<2x2xi32>) -> tensor<2x2x4xf32>
module {
  omnibal.parameter @table : tensor<3x4xf32>
  func.func @tuples() -> tensor<2x2x4xf32> {
    %table = omnibal.get_parameter @table : tensor<3x4xf32>
    %rows = omnibal.constant dense<[[[2], [1]], [[1], [0]]]> : tensor<2x2x1xi64>
    %y = omnibal.gather_nd %table, %rows {batch_dims = 0 : i64} : (tensor<3x4xf32>, tensor<2x2x1xi64>) -> tensor<2x2x4xf32>
    return %y : tensor<2x2x4xf32>
  }

  // A row that does not train stays one; its index may be computed.
  // CHECK-LABEL: func.func @padding
  // CHECK: omnibal.embedding %{{.*}}, %{{.*}} {padding = 1 : i64}
  func.func @padding(%ids: tensor<1x5xi64>) -> tensor<1x5x4xf32> {
    %table = omnibal.get_parameter @table : tensor<3x4xf32>
    %y = omnibal.gather %table, %ids {axis = 0 : i64, padding = 1 : i64} : (tensor<3x4xf32>, tensor<1x5xi64>) -> tensor<1x5x4xf32>
    return %y : tensor<1x5x4xf32>
  }
}
