// RUN: omnibal-opt %s --omnibal-expand-shifts | FileCheck %s -enable-var-scope

#rows = affine_map<(d0, d1) -> (1, d1, 3)>
#n = affine_map<(d0, d1) -> (d1)>

// Row n - 2, where there is one.
// CHECK-LABEL: func.func @shift
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x?x3xf32, {{.*}}%[[P:[a-z0-9]+]]: tensor<?xi32
// CHECK: %[[PAD:.*]] = omnibal.pad %[[X]] {low = array<i64: 0, 2, 0>}
// CHECK: %[[MOVED:.*]] = omnibal.slice %[[PAD]] {begin = array<i64: 0, 0, 0>
// CHECK: %[[AT:.*]] = omnibal.reshape %[[P]]
// CHECK: %[[LATER:.*]] = omnibal.compare %[[AT]], %{{.*}} {predicate = 4 : i32}
// CHECK: omnibal.select %[[LATER]], %[[MOVED]]
func.func @shift(%x: tensor<1x?x3xf32, #rows>, %p: tensor<?xi32, #n>) -> tensor<1x?x3xf32, #rows> {
  %y = omnibal.shift_tokens %x, %p {distance = 2 : i64} : (tensor<1x?x3xf32, #rows>, tensor<?xi32, #n>) -> tensor<1x?x3xf32, #rows>
  return %y : tensor<1x?x3xf32, #rows>
}

// CHECK-LABEL: func.func @back
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x?x3xf32
// CHECK: %[[LATER:.*]] = omnibal.compare
// CHECK: %[[TAKEN:.*]] = omnibal.select %[[LATER]], %[[X]]
// CHECK: %[[PAD:.*]] = omnibal.pad %[[TAKEN]] {low = array<i64: 0, 0, 0>}
// CHECK: omnibal.slice %[[PAD]] {begin = array<i64: 0, 2, 0>
func.func @back(%x: tensor<1x?x3xf32, #rows>, %p: tensor<?xi32, #n>) -> tensor<1x?x3xf32, #rows> {
  %y = omnibal.shift_tokens %x, %p {distance = 2 : i64, inverse} : (tensor<1x?x3xf32, #rows>, tensor<?xi32, #n>) -> tensor<1x?x3xf32, #rows>
  return %y : tensor<1x?x3xf32, #rows>
}
