// RUN: omnibal-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error @below {{gemm_c1: shapes do not fit}}
  %r = omnibal.gemm %a, %b {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>, %c: tensor<2x1xf32>) {
  // expected-error @below {{gemm_c2: the residual's type is not the result's}}
  %r = omnibal.gemm %a, %b residual(%c) : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>, %c: tensor<2xf32>) {
  // expected-error @below {{gemm_c3: bias 'tensor<2xf32>' is not one value a column}}
  %r = omnibal.gemm %a, %b bias(%c) : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @below {{fused_c1: the terminator does not yield the results}}
  %r = omnibal.fused rows array<i64: 2, 0, 0> cols 3 (%a) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%x: tensor<2x3xf32>):
    omnibal.fused_yield
  }
  return
}

// -----

func.func @f(%a: tensor<2x2xf32>) {
  // expected-error @below {{fused_c2: 'omnibal.matmul' cannot be part of a fused group}}
  %r = omnibal.fused rows array<i64: 2, 0, 0> cols 2 (%a) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%x: tensor<2x2xf32>):
    %y = omnibal.matmul %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    omnibal.fused_yield %y : tensor<2x2xf32>
  }
  return
}
