// RUN: omnibal-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(omnibal-form-gemms{target=cuda}))' | FileCheck %s -enable-var-scope
// RUN: omnibal-opt %s --split-input-file --omnibal-form-gemms | FileCheck %s -enable-var-scope --check-prefix=HOST

#n = affine_map<(d0, d1) -> (d0, 4, 8)>
!x = tensor<?x4x8xf32, #n>

// The argument of gelu (tanh) is saved: the product gives both.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<?x4x8xf32, {{.*}}>, %[[W:.*]]: tensor<8x8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[H:.*]], %[[PRE:.*]] = omnibal.gemm %[[X]], %[[W]] bias(%[[B]]) {activation = 2 : i32
// CHECK-NOT: omnibal.gelu
// CHECK: %[[Y:.*]] = omnibal.gemm %[[H]], %[[W]]
// CHECK: return %[[Y]], %[[PRE]]
// HOST-LABEL: func.func @forward
// HOST: omnibal.gelu
func.func @forward(%x: !x, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (!x, !x) {
  %0 = omnibal.linear %x, %w, %b : (!x, tensor<8x8xf32>, tensor<8xf32>) -> !x
  %1 = omnibal.gelu %0 {tanh} : (!x) -> !x
  %2 = omnibal.linear %1, %w : (!x, tensor<8x8xf32>) -> !x
  return %2, %0 : !x, !x
}

// -----

#n = affine_map<(d0, d1) -> (d0, 4, 8)>
!x = tensor<?x4x8xf32, #n>

// The product times the derivative; the bias's gradient beside the weight's.
// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%[[PRE:[^:]*]]: {{.*}}, %[[X:[^:]*]]: {{.*}}, %[[DY:[^:]*]]: {{.*}}, %[[W:[^:]*]]: tensor<8x8xf32>)
// CHECK: %[[DX:.*]] = omnibal.gemm %[[DY]], %[[W]] at(%[[PRE]]) {activation = 2 : i32
// CHECK-NOT: omnibal.gelu_grad
// CHECK-DAG: %[[ROWS:.*]] = omnibal.reshape %[[DX]]
// CHECK-DAG: %[[IN:.*]] = omnibal.reshape %[[X]]
// CHECK: %[[DW:.*]], %[[DB:.*]] = omnibal.gemm %[[ROWS]], %[[IN]] {{.*}}transpose_lhs{{.*}} -> (tensor<8x8xf32>, tensor<8xf32>)
// CHECK-NOT: omnibal.reduce
// CHECK: return %[[DX]], %[[DW]], %[[DB]]
// HOST-LABEL: func.func @backward
// HOST: omnibal.gelu_grad
// HOST: omnibal.reduce
func.func @backward(%pre: !x, %x: !x, %dy: !x, %w: tensor<8x8xf32>)
    -> (!x, tensor<8x8xf32>, tensor<8xf32>) {
  %0 = omnibal.linear %dy, %w {in_out} : (!x, tensor<8x8xf32>) -> !x
  %1 = omnibal.gelu_grad %pre, %0 {tanh} : (!x, !x) -> !x
  %2 = omnibal.linear_weight_grad %x, %1 : (!x, !x) -> tensor<8x8xf32>
  %3 = omnibal.reduce %1 {axes = array<i64: 0, 1>, kind = 0 : i32} : (!x) -> tensor<8xf32>
  return %1, %2, %3 : !x, tensor<8x8xf32>, tensor<8xf32>
}

// -----

#n = affine_map<(d0, d1) -> (d0, 4, 8)>
!x = tensor<?x4x8xf32, #n>

// A weight that lies as [in, out]: dy is the right factor.
// CHECK-LABEL: func.func @inOut
// CHECK: omnibal.gemm {{.*}}{{{.*}}sum_rhs, transpose_lhs}
// CHECK-NOT: omnibal.reduce
func.func @inOut(%x: !x, %dy: !x) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = omnibal.linear_weight_grad %x, %dy {in_out} : (!x, !x) -> tensor<8x8xf32>
  %1 = omnibal.reduce %dy {axes = array<i64: 0, 1>, kind = 0 : i32} : (!x) -> tensor<8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}

// -----

#n = affine_map<(d0, d1) -> (d0, 4, 8)>
!x = tensor<?x4x8xf32, #n>

// What a fused group reads or makes anyway stays there; so does a gelu by erf, which the library
// lacks, and what is read by elementwise ops.
// CHECK-LABEL: func.func @groups
// CHECK: omnibal.gemm
// CHECK: omnibal.gelu_grad
// CHECK: omnibal.gemm
// CHECK: omnibal.gelu_grad
// CHECK: omnibal.mul
// CHECK: omnibal.gemm
// CHECK-SAME: -> tensor<8x8xf32>
// CHECK: omnibal.reduce
func.func @groups(%pre: !x, %x: !x, %dy: !x, %w: tensor<8x8xf32>)
    -> (!x, !x, tensor<8x8xf32>, tensor<8xf32>) {
  %0 = omnibal.linear %dy, %w {in_out} : (!x, tensor<8x8xf32>) -> !x
  %1 = omnibal.gelu_grad %pre, %0 : (!x, !x) -> !x
  %2 = omnibal.linear %x, %w {in_out} : (!x, tensor<8x8xf32>) -> !x
  %3 = omnibal.gelu_grad %pre, %2 {tanh} : (!x, !x) -> !x
  %4 = omnibal.mul %3, %x : (!x, !x) -> !x
  %5 = omnibal.linear_weight_grad %x, %4 : (!x, !x) -> tensor<8x8xf32>
  %6 = omnibal.reduce %4 {axes = array<i64: 0, 1>, kind = 0 : i32} : (!x) -> tensor<8xf32>
  return %1, %4, %5, %6 : !x, !x, tensor<8x8xf32>, tensor<8xf32>
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>

// silu is no epilogue of the library: it joins the product by up instead.
// CHECK-LABEL: func.func @swiglu
// CHECK: omnibal.silu
// HOST-LABEL: func.func @swiglu
// HOST-NOT: omnibal.silu
// HOST: return
func.func @swiglu(%x: !x, %g: tensor<8x8xf32>, %u: tensor<8x8xf32>) -> !x {
  %0 = omnibal.linear %x, %g : (!x, tensor<8x8xf32>) -> !x
  %1 = omnibal.silu %0 : (!x) -> !x
  %2 = omnibal.linear %x, %u : (!x, tensor<8x8xf32>) -> !x
  %3 = omnibal.mul %1, %2 : (!x, !x) -> !x
  return %3 : !x
}
