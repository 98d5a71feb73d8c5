// RUN: omnibal-opt %s --omnibal-specialize --split-input-file | FileCheck -enable-var-scope %s

// x[ids == 9] = row, as exporters write it: as many updates as there are such tokens. One row for all of them is a choice
// by the mask.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<1x?xi64
// CHECK-NOT: nonzero
// CHECK-NOT: scatter
// CHECK: %[[ROW:.*]] = omnibal.get_parameter @row
// CHECK: %[[X:.*]] = omnibal.gather
// CHECK: %[[AT:.*]] = omnibal.compare %[[IDS]]
// CHECK: %[[ROWS:.*]] = omnibal.reshape %[[AT]] {{.*}} -> tensor<1x?x1xi1
// CHECK: %[[MASK:.*]] = omnibal.expand %[[ROWS]] {{.*}} -> tensor<1x?x8xi1
// CHECK: %[[Y:.*]] = omnibal.select %[[MASK]], %[[ROW]], %[[X]]
// CHECK: return %[[Y]]
module {
  omnibal.parameter @table : tensor<16x8xf32>
  omnibal.parameter @row : tensor<8xf32>
  func.func @main(%ids: tensor<?x?xi64> {omnibal.input = "input_ids"}) -> (tensor<?x?x8xf32> {omnibal.output = "logits"}) {
    %row = omnibal.get_parameter @row : tensor<8xf32>
    %table = omnibal.get_parameter @table : tensor<16x8xf32>
    %x = omnibal.gather %table, %ids {axis = 0 : i64} : (tensor<16x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
    %token = omnibal.constant dense<9> : tensor<i64>
    %last = omnibal.constant dense<-1> : tensor<1xi64>
    %eight = omnibal.constant dense<8> : tensor<1xi64>
    %at = omnibal.compare %ids, %token {predicate = 0 : i32} : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
    %rows = omnibal.unsqueeze %at, %last : (tensor<?x?xi1>, tensor<1xi64>) -> tensor<?x?x1xi1>
    %shape = omnibal.shape %x {start = 0 : i64, end = 3 : i64} : (tensor<?x?x8xf32>) -> tensor<3xi64>
    %mask = omnibal.expand %rows, %shape : (tensor<?x?x1xi1>, tensor<3xi64>) -> tensor<?x?x8xi1>
    %places = omnibal.nonzero %mask : (tensor<?x?x8xi1>) -> tensor<3x?xi64>
    %indices = omnibal.transpose %places {permutation = array<i64: 1, 0>} : (tensor<3x?xi64>) -> tensor<?x3xi64>
    %long = omnibal.reshape %at, %last : (tensor<?x?xi1>, tensor<1xi64>) -> tensor<?xi1>
    %numbers = omnibal.cast %long : (tensor<?xi1>) -> tensor<?xi64>
    %count = omnibal.reduce %numbers {kind = 0 : i32, axes = array<i64: 0>, keepdims} : (tensor<?xi64>) -> tensor<1xi64>
    %to = omnibal.concat %count, %eight {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %repeated = omnibal.expand %row, %to : (tensor<8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
    %updates = omnibal.reshape %repeated, %last : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?xf32>
    %y = omnibal.scatter_nd %x, %indices, %updates {reduction = "none"} : (tensor<?x?x8xf32>, tensor<?x3xi64>, tensor<?xf32>) -> tensor<?x?x8xf32>
    return %y : tensor<?x?x8xf32>
  }
}

// -----

// A row for each such token: the expansion to their number does nothing.
// CHECK-LABEL: func.func @main
// CHECK-SAME: , %[[F:[a-z0-9]+]]: tensor<?x4x8xf32
// CHECK-NOT: omnibal.expand {{.*}}xf32
// CHECK: %[[ROWS:.*]] = omnibal.reshape %[[F]] {{.*}} -> tensor<?x8xf32
// CHECK: %[[FLAT:.*]] = omnibal.reshape %[[ROWS]] {{.*}} -> tensor<?xf32
// CHECK: omnibal.scatter_nd {{.*}}, %[[FLAT]]
module {
  omnibal.parameter @table : tensor<16x8xf32>
  func.func @main(%ids: tensor<?x?xi64> {omnibal.input = "input_ids"}, %features: tensor<?x4x8xf32> {omnibal.input = "pixel_values"}) -> (tensor<?x?x8xf32> {omnibal.output = "logits"}) {
    %table = omnibal.get_parameter @table : tensor<16x8xf32>
    %x = omnibal.gather %table, %ids {axis = 0 : i64} : (tensor<16x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
    %token = omnibal.constant dense<9> : tensor<i64>
    %last = omnibal.constant dense<-1> : tensor<1xi64>
    %eight = omnibal.constant dense<8> : tensor<1xi64>
    %rows_of = omnibal.constant dense<[-1, 8]> : tensor<2xi64>
    %feature_rows = omnibal.reshape %features, %rows_of : (tensor<?x4x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
    %at = omnibal.compare %ids, %token {predicate = 0 : i32} : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
    %rows = omnibal.unsqueeze %at, %last : (tensor<?x?xi1>, tensor<1xi64>) -> tensor<?x?x1xi1>
    %shape = omnibal.shape %x {start = 0 : i64, end = 3 : i64} : (tensor<?x?x8xf32>) -> tensor<3xi64>
    %mask = omnibal.expand %rows, %shape : (tensor<?x?x1xi1>, tensor<3xi64>) -> tensor<?x?x8xi1>
    %places = omnibal.nonzero %mask : (tensor<?x?x8xi1>) -> tensor<3x?xi64>
    %indices = omnibal.transpose %places {permutation = array<i64: 1, 0>} : (tensor<3x?xi64>) -> tensor<?x3xi64>
    %long = omnibal.reshape %at, %last : (tensor<?x?xi1>, tensor<1xi64>) -> tensor<?xi1>
    %numbers = omnibal.cast %long : (tensor<?xi1>) -> tensor<?xi64>
    %count = omnibal.reduce %numbers {kind = 0 : i32, axes = array<i64: 0>, keepdims} : (tensor<?xi64>) -> tensor<1xi64>
    %to = omnibal.concat %count, %eight {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %repeated = omnibal.expand %feature_rows, %to : (tensor<?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
    %updates = omnibal.reshape %repeated, %last : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?xf32>
    %y = omnibal.scatter_nd %x, %indices, %updates {reduction = "none"} : (tensor<?x?x8xf32>, tensor<?x3xi64>, tensor<?xf32>) -> tensor<?x?x8xf32>
    return %y : tensor<?x?x8xf32>
  }
}
