// RUN: omnibal-opt %s --omnibal-raise-attention | FileCheck -enable-var-scope %s

// Queries and keys of different numbers (learned queries that read a picture's features): no kernel takes them.
#q = affine_map<(d0, d1) -> (d0, 4, 3, 8)>
#k = affine_map<(d0, d1) -> (d0, 2, 5, 8)>
#same = affine_map<(d0, d1) -> (d0, 4, 5, 8)>
#kt = affine_map<(d0, d1) -> (d0, 4, 8, 5)>
#lse = affine_map<(d0, d1) -> (d0, 4, 3)>
#scores = affine_map<(d0, d1) -> (d0, 4, 3, 5)>

// As products they stay so, without the sum with a mask that hides nothing.
// CHECK-LABEL: func.func @products
// CHECK-NOT: omnibal.attention
// CHECK: %[[S:.*]] = omnibal.matmul
// CHECK: %[[P:.*]] = omnibal.softmax %[[S]]
// CHECK: omnibal.matmul %[[P]]
func.func @products(%q: tensor<?x4x3x8xf32, #q> {omnibal.role = "image"}, %k: tensor<?x4x5x8xf32, #same> {omnibal.role = "image"}) -> tensor<?x4x3x8xf32, #q> {
  %none = omnibal.constant dense<0.0> : tensor<3x5xf32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<?x4x5x8xf32, #same>) -> tensor<?x4x8x5xf32, #kt>
  %qk = omnibal.matmul %q, %kt : (tensor<?x4x3x8xf32, #q>, tensor<?x4x8x5xf32, #kt>) -> tensor<?x4x3x5xf32, #scores>
  %masked = omnibal.add %qk, %none : (tensor<?x4x3x5xf32, #scores>, tensor<3x5xf32>) -> tensor<?x4x3x5xf32, #scores>
  %p = omnibal.softmax %masked {axis = 3 : i64} : (tensor<?x4x3x5xf32, #scores>) -> tensor<?x4x3x5xf32, #scores>
  %y = omnibal.matmul %p, %k : (tensor<?x4x3x5xf32, #scores>, tensor<?x4x5x8xf32, #same>) -> tensor<?x4x3x8xf32, #q>
  return %y : tensor<?x4x3x8xf32, #q>
}

// As one op they become products, the query heads of a key head as more rows.
// CHECK-LABEL: func.func @one_op
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x4x3x8xf32, {{[^)]*}} %[[K:[a-z0-9]+]]: tensor<?x2x5x8xf32
// CHECK: %[[ROWS:.*]] = omnibal.reshape %[[Q]] {{.*}} -> tensor<?x2x6x8xf32
// CHECK: %[[QK:.*]] = omnibal.matmul %[[ROWS]], %[[K]] {transpose_rhs} {{.*}} -> tensor<?x2x6x5xf32
// CHECK: %[[HEADS:.*]] = omnibal.reshape %[[QK]] {{.*}} -> tensor<?x4x3x5xf32
// CHECK: %[[SCALE:.*]] = omnibal.constant dense<5.000000e-01>
// CHECK: %[[SCALED:.*]] = omnibal.mul %[[HEADS]], %[[SCALE]]
// CHECK: %[[LOW:.*]] = omnibal.constant dense<-1.000000e+30>
// CHECK: %[[SEEN:.*]] = omnibal.select %[[MASK:.*]], %[[SCALED]], %[[LOW]]
// CHECK: %[[P:.*]] = omnibal.softmax %[[SEEN]] {axis = 3 : i64}
// CHECK: %[[ZERO:.*]] = omnibal.constant dense<0.000000e+00>
// CHECK: %[[W:.*]] = omnibal.select %[[MASK]], %[[P]], %[[ZERO]]
// CHECK: %[[WROWS:.*]] = omnibal.reshape %[[W]] {{.*}} -> tensor<?x2x6x5xf32
// CHECK: %[[R:.*]] = omnibal.matmul %[[WROWS]], %[[K]]
// CHECK: %[[Y:.*]] = omnibal.reshape %[[R]] {{.*}} -> tensor<?x4x3x8xf32
// CHECK: return %[[Y]]
func.func @one_op(%q: tensor<?x4x3x8xf32, #q> {omnibal.role = "image"}, %k: tensor<?x2x5x8xf32, #k> {omnibal.role = "image"}) -> tensor<?x4x3x8xf32, #q> {
  %mask = omnibal.constant dense<[true, true, false, true, false]> : tensor<5xi1>
  %y, %lse = omnibal.attention %q, %k, %k, %mask {scale = 0.5 : f64, mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<?x4x3x8xf32, #q>, tensor<?x2x5x8xf32, #k>, tensor<?x2x5x8xf32, #k>, tensor<5xi1>) -> (tensor<?x4x3x8xf32, #q>, tensor<?x4x3xf32, #lse>)
  return %y : tensor<?x4x3x8xf32, #q>
}
