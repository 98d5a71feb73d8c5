// RUN: omnibal-opt %s --omnibal-form-gemms | FileCheck %s --check-prefix=HOST
// RUN: omnibal-opt %s --omnibal-form-gemms="target=cuda" | FileCheck %s --check-prefix=CUDA -enable-var-scope

// The host has a kernel. Without one, a product adds to the weight as that lies, and its rows are squared and added up.
// HOST-LABEL: func.func @rows
// HOST-NEXT: omnibal.row_squares
// CUDA-LABEL: func.func @rows
// CUDA-SAME: (%[[W:.*]]: tensor<6x8xf32>, %[[A:.*]]: tensor<2x8xf32>, %[[B:.*]]: tensor<6x2xf32>)
// CUDA-NEXT: %[[SUM:.*]] = omnibal.gemm %[[B]], %[[A]] residual(%[[W]]) {alpha = 5.000000e-01 : f64, {{.*}}}
// CUDA-NEXT: %[[SQUARE:.*]] = omnibal.mul %[[SUM]], %[[SUM]]
// CUDA-NEXT: omnibal.reduce %[[SQUARE]] {axes = array<i64: 1>, kind = 0 : i32} : (tensor<6x8xf32>) -> tensor<6xf32>
func.func @rows(%w: tensor<6x8xf32>, %a: tensor<2x8xf32>, %b: tensor<6x2xf32>) -> tensor<6xf32> {
  %0 = omnibal.row_squares %w, %a, %b {scale = 0.5 : f64} : (tensor<6x8xf32>, tensor<2x8xf32>, tensor<6x2xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// HOST-LABEL: func.func @columns
// HOST-NEXT: omnibal.row_squares
// CUDA-LABEL: func.func @columns
// CUDA-SAME: (%[[W:.*]]: tensor<8x6xf32>, %[[A:.*]]: tensor<2x8xf32>, %[[B:.*]]: tensor<6x2xf32>)
// CUDA-NEXT: %[[SUM:.*]] = omnibal.gemm %[[A]], %[[B]] residual(%[[W]]) {alpha = 5.000000e-01 : f64, {{.*}}, transpose_lhs, transpose_rhs}
// CUDA-NEXT: %[[SQUARE:.*]] = omnibal.mul %[[SUM]], %[[SUM]]
// CUDA-NEXT: omnibal.reduce %[[SQUARE]] {axes = array<i64: 0>, kind = 0 : i32} : (tensor<8x6xf32>) -> tensor<6xf32>
func.func @columns(%w: tensor<8x6xf32>, %a: tensor<2x8xf32>, %b: tensor<6x2xf32>) -> tensor<6xf32> {
  %0 = omnibal.row_squares %w, %a, %b {scale = 0.5 : f64, in_out} : (tensor<8x6xf32>, tensor<2x8xf32>, tensor<6x2xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
