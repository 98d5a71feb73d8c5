// RUN: omnibal-opt %s --split-input-file --omnibal-form-gemms | FileCheck %s -enable-var-scope

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>

// Bias, activation and residual join where nothing else reads what they replace.
// CHECK-LABEL: func.func @epilogues
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8xf32, {{.*}}>, %[[W:.*]]: tensor<8x8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[H:.*]] = omnibal.gemm %[[X]], %[[W]] bias(%[[B]]) {activation = 1 : i32, {{.*}}transpose_rhs}
// CHECK: %[[Y:.*]] = omnibal.gemm %[[H]], %[[W]] residual(%[[X]])
// CHECK-NOT: omnibal.add
// CHECK: return %[[Y]]
func.func @epilogues(%x: !x, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> !x {
  %0 = omnibal.linear %x, %w, %b : (!x, tensor<8x8xf32>, tensor<8xf32>) -> !x
  %1 = omnibal.gelu %0 : (!x) -> !x
  %2 = omnibal.linear %1, %w {in_out} : (!x, tensor<8x8xf32>) -> !x
  %3 = omnibal.add %x, %2 : (!x, !x) -> !x
  return %3 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>

// The pre-activation is saved: the activation stays outside.
// CHECK-LABEL: func.func @saved
// CHECK: %[[H:.*]] = omnibal.gemm
// CHECK-NOT: activation
// CHECK: %[[G:.*]] = omnibal.silu %[[H]]
// CHECK: return %[[G]], %[[H]]
func.func @saved(%x: !x, %w: tensor<8x8xf32>) -> (!x, !x) {
  %0 = omnibal.linear %x, %w : (!x, tensor<8x8xf32>) -> !x
  %1 = omnibal.silu %0 : (!x) -> !x
  return %1, %0 : !x, !x
}

// -----

#n = affine_map<(d0, d1) -> (d0, 4, 8)>
!x = tensor<?x4x8xf32, #n>

// The gradient of a weight is one product over all rows.
// CHECK-LABEL: func.func @weightGrad
// CHECK-DAG: %[[X:.*]] = omnibal.reshape %arg0
// CHECK-DAG: %[[D:.*]] = omnibal.reshape %arg1
// CHECK: omnibal.gemm %[[D]], %[[X]] {{.*}}transpose_lhs
func.func @weightGrad(%x: !x, %d: !x) -> tensor<8x8xf32> {
  %0 = omnibal.linear_weight_grad %x, %d : (!x, !x) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!x = tensor<1x?x8xf32, #n>

// Two products of one sum: the later adds to the earlier.
// CHECK-LABEL: func.func @sum
// CHECK: %[[A:.*]] = omnibal.gemm %arg0, %arg1
// CHECK: omnibal.gemm %arg0, %arg2 residual(%[[A]])
func.func @sum(%x: !x, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> !x {
  %0 = omnibal.matmul %x, %v : (!x, tensor<8x8xf32>) -> !x
  %1 = omnibal.matmul %x, %w : (!x, tensor<8x8xf32>) -> !x
  %2 = omnibal.add %0, %1 : (!x, !x) -> !x
  return %2 : !x
}
