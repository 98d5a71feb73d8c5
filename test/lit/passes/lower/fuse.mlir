// RUN: omnibal-opt %s --split-input-file --omnibal-expand-norms --cse --omnibal-fuse | FileCheck %s -enable-var-scope
// RUN: omnibal-opt %s --split-input-file --omnibal-expand-norms --cse --omnibal-fuse | omnibal-opt --split-input-file > %t

#n = affine_map<(d0, d1) -> (1, d1, 48)>
!x = tensor<1x?x48xf32, #n>

// A norm is one kernel: statistics and result, row by row.
// CHECK-LABEL: func.func @norm
// CHECK-NEXT: %[[Y:.*]] = omnibal.fused rows [0, 0, 1] cols 48(%arg0, %arg1)
// CHECK: omnibal.reduce
// CHECK: omnibal.fused_yield
// CHECK: return %[[Y]]
func.func @norm(%x: !x, %w: tensor<48xf32>) -> !x {
  %0 = omnibal.rms_norm %x, %w {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (!x, tensor<48xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 48)>
!x = tensor<1x?x48xf32, #n>

// One plus the weight needs no kernel of its own.
// CHECK-LABEL: func.func @weightPlusOne
// CHECK-COUNT-1: omnibal.fused rows
// CHECK-NOT: omnibal.fused rows
func.func @weightPlusOne(%x: !x, %w: tensor<48xf32>) -> !x {
  %one = omnibal.constant dense<1.0> : tensor<f32>
  %s = omnibal.add %w, %one : (tensor<48xf32>, tensor<f32>) -> tensor<48xf32>
  %0 = omnibal.rms_norm %x, %s {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!x, tensor<48xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 48)>
!x = tensor<1x?x48xf32, #n>

// A sum over rows leaves its group; what reads it comes after.
// CHECK-LABEL: func.func @columnSum
// CHECK: %[[S:.*]] = omnibal.fused rows [0, 0, 1] cols 48(%arg0, %arg1)
// CHECK: omnibal.fused rows {{.*}}(%arg0, %[[S]])
func.func @columnSum(%x: !x, %y: !x) -> !x {
  %0 = omnibal.mul %x, %y : (!x, !x) -> !x
  %1 = omnibal.reduce %0 {kind = 0 : i32, axes = array<i64: 0, 1>} : (!x) -> tensor<48xf32>
  %2 = omnibal.mul %x, %1 : (!x, tensor<48xf32>) -> !x
  return %2 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 48)>
!x = tensor<1x?x48xf32, #n>

// The path through the product forbids one group.
// CHECK-LABEL: func.func @cycle
// CHECK: %[[A:.*]] = omnibal.fused
// CHECK: %[[M:.*]] = omnibal.matmul %[[A]]
// CHECK: omnibal.fused {{.*}}(%[[A]], %[[M]])
func.func @cycle(%x: !x, %w: tensor<48x48xf32>) -> !x {
  %0 = omnibal.exp %x : (!x) -> !x
  %1 = omnibal.matmul %0, %w : (!x, tensor<48x48xf32>) -> !x
  %2 = omnibal.mul %0, %1 : (!x, !x) -> !x
  return %2 : !x
}

// -----

#v = affine_map<(d0, d1) -> (d0, 17, 48)>
!x = tensor<?x17x48xf32, #v>

// A position table repeats from tile to tile; a view between two ops does not part them.
// CHECK-LABEL: func.func @positions
// CHECK-COUNT-1: omnibal.fused rows
// CHECK-NOT: omnibal.fused rows
func.func @positions(%x: !x, %p: tensor<1x17x48xf32>) -> tensor<?x48xf32, affine_map<(d0, d1) -> (17 * d0, 48)>> {
  %0 = omnibal.add %x, %p : (!x, tensor<1x17x48xf32>) -> !x
  %1 = omnibal.reshape %0 : (!x) -> tensor<?x48xf32, affine_map<(d0, d1) -> (17 * d0, 48)>>
  %2 = omnibal.neg %1 : (tensor<?x48xf32, affine_map<(d0, d1) -> (17 * d0, 48)>>) -> tensor<?x48xf32, affine_map<(d0, d1) -> (17 * d0, 48)>>
  return %2 : tensor<?x48xf32, affine_map<(d0, d1) -> (17 * d0, 48)>>
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 48)>
!x = tensor<1x?x48xf32, #n>

// What is computed from %arg0 for the second group joins that, not the first reader of %arg0: reading it twice
// is less than storing the result and reading that.
// CHECK-LABEL: func.func @producersFirst
// CHECK: %[[A:.*]] = omnibal.fused rows {{.*}}(%arg0) :
// CHECK-NOT: omnibal.exp
// CHECK: %[[M:.*]] = omnibal.matmul %[[A]]
// CHECK: omnibal.fused rows {{.*}}(%arg0, %[[M]])
// CHECK: omnibal.exp
func.func @producersFirst(%x: !x, %w: tensor<48x48xf32>) -> !x {
  %0 = omnibal.relu %x : (!x) -> !x
  %1 = omnibal.matmul %0, %w : (!x, tensor<48x48xf32>) -> !x
  %2 = omnibal.exp %x : (!x) -> !x
  %3 = omnibal.add %2, %1 : (!x, !x) -> !x
  return %3 : !x
}
