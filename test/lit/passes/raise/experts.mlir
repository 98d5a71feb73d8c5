// RUN: omnibal-opt %s --omnibal-raise-experts --split-input-file | FileCheck -enable-var-scope %s

// matrices[ids] times rows becomes products in groups; the rows are sorted once for both.
#nc = affine_map<(d0, d1) -> (d1, 1, 8)>
#nkc = affine_map<(d0, d1) -> (d1, 2, 8)>
#nk = affine_map<(d0, d1) -> (d1, 2)>
#s = affine_map<(d0, d1) -> (d1 * 2)>
#s1 = affine_map<(d0, d1) -> (d1 * 2, 1)>
#sc1 = affine_map<(d0, d1) -> (d1 * 2, 8, 1)>
#sm = affine_map<(d0, d1) -> (d1 * 2, 6, 8)>
#sm1 = affine_map<(d0, d1) -> (d1 * 2, 6, 1)>
#s1m = affine_map<(d0, d1) -> (d1 * 2, 1, 6)>
#sd = affine_map<(d0, d1) -> (d1 * 2, 6, 5)>
#s1d = affine_map<(d0, d1) -> (d1 * 2, 1, 5)>

omnibal.parameter @up : tensor<4x6x8xf32>
omnibal.parameter @down : tensor<4x6x5xf32>

// CHECK-LABEL: func.func @experts
// CHECK-SAME: %[[X:[a-z0-9]+]]: {{[^%]*}}%[[IDS:[a-z0-9]+]]: tensor<?x2xi64
// CHECK-DAG: %[[UP:.*]] = omnibal.get_parameter @up
// CHECK-DAG: %[[DOWN:.*]] = omnibal.get_parameter @down
// CHECK-DAG: %[[ROWS:.*]] = omnibal.expand %[[X]]
// CHECK: %[[ORDER:.*]], %[[BORDERS:.*]] = omnibal.group_rows %[[IDS]] {groups = 4 : i64}
// CHECK: %[[H:.*]] = omnibal.grouped_linear %[[ROWS]], %[[UP]], %[[ORDER]], %[[BORDERS]] : (tensor<?x2x8xf32
// CHECK-NOT: omnibal.group_rows
// CHECK: omnibal.grouped_linear %{{.*}}, %[[DOWN]], %[[ORDER]], %[[BORDERS]] {in_out}
// CHECK-NOT: omnibal.matmul
func.func @experts(%x: tensor<?x1x8xf32, #nc>, %ids: tensor<?x2xi64, #nk>) -> tensor<?x1x5xf32, #s1d> {
  %up = omnibal.get_parameter @up : tensor<4x6x8xf32>
  %down = omnibal.get_parameter @down : tensor<4x6x5xf32>
  %list = omnibal.reshape %ids : (tensor<?x2xi64, #nk>) -> tensor<?xi64, #s>
  %tuples = omnibal.reshape %list : (tensor<?xi64, #s>) -> tensor<?x1xi64, #s1>
  %repeated = omnibal.expand %x : (tensor<?x1x8xf32, #nc>) -> tensor<?x2x8xf32, #nkc>
  %columns = omnibal.reshape %repeated : (tensor<?x2x8xf32, #nkc>) -> tensor<?x8x1xf32, #sc1>
  %m = omnibal.gather_nd %up, %tuples {batch_dims = 0 : i64} : (tensor<4x6x8xf32>, tensor<?x1xi64, #s1>) -> tensor<?x6x8xf32, #sm>
  %h = omnibal.matmul %m, %columns : (tensor<?x6x8xf32, #sm>, tensor<?x8x1xf32, #sc1>) -> tensor<?x6x1xf32, #sm1>
  %row = omnibal.reshape %h : (tensor<?x6x1xf32, #sm1>) -> tensor<?x1x6xf32, #s1m>
  %d = omnibal.gather %down, %list {axis = 0 : i64} : (tensor<4x6x5xf32>, tensor<?xi64, #s>) -> tensor<?x6x5xf32, #sd>
  %y = omnibal.matmul %row, %d : (tensor<?x1x6xf32, #s1m>, tensor<?x6x5xf32, #sd>) -> tensor<?x1x5xf32, #s1d>
  return %y : tensor<?x1x5xf32, #s1d>
}

// -----

// A matrix of its own for each row that is no parameter's stays a product.
#s = affine_map<(d0, d1) -> (d1)>
#sm = affine_map<(d0, d1) -> (d1, 6, 8)>
#sc1 = affine_map<(d0, d1) -> (d1, 8, 1)>
#sm1 = affine_map<(d0, d1) -> (d1, 6, 1)>
// CHECK-LABEL: func.func @no_parameter
// CHECK: omnibal.matmul
func.func @no_parameter(%w: tensor<4x6x8xf32>, %x: tensor<?x8x1xf32, #sc1>, %ids: tensor<?xi64, #s>) -> tensor<?x6x1xf32, #sm1> {
  %m = omnibal.gather %w, %ids {axis = 0 : i64} : (tensor<4x6x8xf32>, tensor<?xi64, #s>) -> tensor<?x6x8xf32, #sm>
  %y = omnibal.matmul %m, %x : (tensor<?x6x8xf32, #sm>, tensor<?x8x1xf32, #sc1>) -> tensor<?x6x1xf32, #sm1>
  return %y : tensor<?x6x1xf32, #sm1>
}
