// Quantized weights: their numbers for target cuda, the codes themselves on the host.
// RUN: omnibal-opt %s --pass-pipeline="builtin.module(func.func(omnibal-form-gemms{target=cuda}))" | FileCheck %s
// RUN: omnibal-opt %s --pass-pipeline="builtin.module(func.func(omnibal-form-gemms))" | FileCheck %s --check-prefix=HOST

// CHECK-LABEL: func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<3x8xf32>, %[[W:.*]]: tensor<4x8xf32, "nf4">
// CHECK: %[[N:.*]] = omnibal.dequantize %[[W]] : (tensor<4x8xf32, "nf4">) -> tensor<4x8xf32>
// CHECK: omnibal.gemm %[[X]], %[[N]]
// CHECK-SAME: transpose_rhs
// HOST-LABEL: func @linear(
// HOST-NOT: dequantize
// HOST: omnibal.gemm %{{.*}}, %{{.*}} : (tensor<3x8xf32>, tensor<4x8xf32, "nf4">) -> tensor<3x4xf32>
func.func @linear(%x: tensor<3x8xf32>, %w: tensor<4x8xf32, "nf4">) -> tensor<3x4xf32> {
  %0 = omnibal.linear %x, %w : (tensor<3x8xf32>, tensor<4x8xf32, "nf4">) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func @norms(
// CHECK: %[[N:.*]] = omnibal.dequantize
// CHECK: omnibal.gemm %{{.*}}, %{{.*}} residual(%[[N]])
// HOST-LABEL: func @norms(
// HOST-NOT: dequantize
// HOST: omnibal.row_squares
func.func @norms(%w: tensor<4x8xf32, "int8">, %a: tensor<2x8xf32>, %b: tensor<4x2xf32>) -> tensor<4xf32> {
  %0 = omnibal.row_squares %w, %a, %b {scale = 2.0 : f64} : (tensor<4x8xf32, "int8">, tensor<2x8xf32>, tensor<4x2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
