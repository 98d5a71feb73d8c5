// RUN: omnibal-opt %s --omnibal-specialize | FileCheck -enable-var-scope %s

// Constants are evaluated, equal ones are one, identities go; an open end of a slice is its size.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x17x8xf32
// CHECK-DAG: %[[TWO:.*]] = omnibal.constant dense<2.000000e+00> : tensor<f32>
// CHECK-DAG: %[[S:.*]] = omnibal.slice %[[X]] {begin = array<i64: 0, 1, 0>,{{.*}} step = array<i64: 1, 1, 1>}
// CHECK: %[[A:.*]] = omnibal.mul %[[S]], %[[TWO]]
// CHECK: %[[B:.*]] = omnibal.mul %[[A]], %[[TWO]]
// CHECK: return %[[B]]
module {
  func.func @main(%x: tensor<?x17x8xf32> {omnibal.input = "x"}) -> tensor<?x16x8xf32> {
    %four = omnibal.constant dense<4.0> : tensor<f32>
    %root = omnibal.sqrt %four : (tensor<f32>) -> tensor<f32>
    %root2 = omnibal.sqrt %four : (tensor<f32>) -> tensor<f32>
    %zero = omnibal.constant dense<0> : tensor<1xi64>
    %one = omnibal.constant dense<1> : tensor<1xi64>
    %end = omnibal.constant dense<9223372036854775807> : tensor<1xi64>
    %all = omnibal.slice %x, %zero, %end, %zero, %one {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x17x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x17x8xf32>
    %rest = omnibal.slice %all, %one, %end, %one, %one {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x17x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x16x8xf32>
    %same = omnibal.cast %rest : (tensor<?x16x8xf32>) -> tensor<?x16x8xf32>
    %a = omnibal.mul %same, %root : (tensor<?x16x8xf32>, tensor<f32>) -> tensor<?x16x8xf32>
    %b = omnibal.mul %a, %root2 : (tensor<?x16x8xf32>, tensor<f32>) -> tensor<?x16x8xf32>
    return %b : tensor<?x16x8xf32>
  }
}
