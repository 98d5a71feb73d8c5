// RUN: omnibal-opt %s --split-input-file --omnibal-expand-attention | FileCheck %s -enable-var-scope

// Two query heads read one key head: they become rows of one product.
// CHECK-LABEL: func.func @mask_of_values
// CHECK-SAME: (%[[Q:.*]]: tensor<1x2x3x8xf32>, %[[K:.*]]: tensor<1x1x3x8xf32>, %{{.*}}: tensor<1x1x3x8xf32>, %[[M:.*]]: tensor<3x3xf32>)
// CHECK: %[[ROWS:.*]] = omnibal.reshape %[[Q]] {{.*}} -> tensor<1x1x6x8xf32>
// CHECK: omnibal.matmul %[[ROWS]], %[[K]] {transpose_rhs} {{.*}} -> tensor<1x1x6x3xf32>
// CHECK: omnibal.add %{{.*}}, %[[M]]
// CHECK: omnibal.exp
// CHECK: omnibal.matmul
// CHECK-NOT: omnibal.attention
func.func @mask_of_values(%q: tensor<1x2x3x8xf32>, %k: tensor<1x1x3x8xf32>, %v: tensor<1x1x3x8xf32>,
                          %m: tensor<3x3xf32>) -> tensor<1x2x3x8xf32> {
  %o, %lse = omnibal.attention %q, %k, %v, %m {mask_kind = 0 : i32, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>}
    : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>, tensor<1x1x3x8xf32>, tensor<3x3xf32>) -> (tensor<1x2x3x8xf32>, tensor<1x2x3xf32>)
  return %o : tensor<1x2x3x8xf32>
}

// -----

// Five keys for three queries, with soft capping.
// CHECK-LABEL: func.func @cached_keys
// CHECK: omnibal.matmul {{.*}} -> tensor<1x2x3x5xf32>
// CHECK: omnibal.tanh
// CHECK-NOT: omnibal.attention
func.func @cached_keys(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x2x3x8xf32> {
  %o, %lse = omnibal.attention %q, %k, %k {mask_kind = 1 : i32, scale = 0.5 : f64, softcap = 2.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}
    : (tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> (tensor<1x2x3x8xf32>, tensor<1x2x3xf32>)
  return %o : tensor<1x2x3x8xf32>
}

// -----

// What the kernel takes stays whole.
// CHECK-LABEL: func.func @kernel
// CHECK: omnibal.attention
// CHECK-NOT: omnibal.matmul
func.func @kernel(%q: tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %o, %lse = omnibal.attention %q, %q, %q {mask_kind = 2 : i32, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}
    : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> (tensor<1x2x3x8xf32>, tensor<1x2x3xf32>)
  return %o : tensor<1x2x3x8xf32>
}

// -----

// A sink of each head is one more score, of no key.
// CHECK-LABEL: func.func @sinks
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<2xf32>)
// CHECK: %[[SINKS:.*]] = omnibal.reshape %[[S]] {{.*}} -> tensor<1x2x1x1xf32>
// CHECK: %[[TOP:.*]] = omnibal.max %{{.*}}, %[[SINKS]]
// CHECK: omnibal.sub %[[SINKS]], %[[TOP]]
// CHECK-NOT: omnibal.attention
func.func @sinks(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x8xf32>, %s: tensor<2xf32>) -> tensor<1x2x3x8xf32> {
  %o, %lse = omnibal.attention %q, %k, %k, %s {mask_kind = 1 : i32, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1>}
    : (tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<2xf32>) -> (tensor<1x2x3x8xf32>, tensor<1x2x3xf32>)
  return %o : tensor<1x2x3x8xf32>
}
