// RUN: omnibal-opt %s --split-input-file --verify-diagnostics

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>
func.func @shapes(%x: !x, %w: tensor<4x8xf32>) -> !x {
  // expected-error @+1 {{gemm_c1: shapes do not fit}}
  %0 = omnibal.gemm %x, %w {activation = 0 : i32, resultSegmentSizes = array<i32: 1, 0, 0>} : (!x, tensor<4x8xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>
func.func @residual(%x: !x, %w: tensor<8x8xf32>, %r: tensor<8xf32>) -> !x {
  // expected-error @+1 {{gemm_c2: the residual's type is not the result's}}
  %0 = omnibal.gemm %x, %w residual(%r) {activation = 0 : i32, resultSegmentSizes = array<i32: 1, 0, 0>} : (!x, tensor<8x8xf32>, tensor<8xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>
func.func @bias(%x: !x, %w: tensor<8x8xf32>, %b: tensor<4xf32>) -> !x {
  // expected-error @+1 {{gemm_c3: bias 'tensor<4xf32>' is not one value a column}}
  %0 = omnibal.gemm %x, %w bias(%b) {activation = 0 : i32, resultSegmentSizes = array<i32: 1, 0, 0>} : (!x, tensor<8x8xf32>, tensor<4xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>
func.func @at(%x: !x, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> !x {
  // expected-error @+1 {{gemm_c4: at needs an activation and no bias, residual or pre}}
  %0 = omnibal.gemm %x, %w bias(%b) at(%x) {activation = 2 : i32, resultSegmentSizes = array<i32: 1, 0, 0>} : (!x, tensor<8x8xf32>, tensor<8xf32>, !x) -> !x
  return %0 : !x
}

// -----

func.func @sums(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{gemm_c5: sums 'tensor<6xf32>' are not those of an operand of two dimensions}}
  %0, %1 = omnibal.gemm %a, %b {activation = 0 : i32, resultSegmentSizes = array<i32: 1, 0, 1>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
  return %1 : tensor<6xf32>
}

// -----

func.func @numbers(%w: tensor<4x8xf32, "nf4">) -> tensor<8x4xf32> {
  // expected-error @+1 {{dequantize_c1: 'tensor<8x4xf32>' are not the numbers of 'tensor<4x8xf32, "nf4">'}}
  %0 = omnibal.dequantize %w : (tensor<4x8xf32, "nf4">) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @plain(%w: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{dequantize_c1: 'tensor<4x8xf32>' are not the numbers of 'tensor<4x8xf32>'}}
  %0 = omnibal.dequantize %w : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @arguments(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{fused_c1: the block's arguments do not have the types of the inputs}}
  %0 = omnibal.fused rows [4, 0, 0] cols 8(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<8x4xf32>):
    %1 = omnibal.neg %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
    omnibal.fused_yield %1 : tensor<8x4xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @body(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{fused_c2: 'omnibal.matmul' cannot be part of a fused group}}
  %0 = omnibal.fused rows [4, 0, 0] cols 4(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %1 = omnibal.matmul %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    omnibal.fused_yield %1 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}
