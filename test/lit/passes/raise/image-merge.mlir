// RUN: omnibal-opt %s --omnibal-raise-image-merge | FileCheck -enable-var-scope %s

// Both forms in which exporters write masked_scatter. The token and the number of rows a picture
// become facts of the module.
#ids = affine_map<(d0, d1) -> (1, d1)>
#ids1 = affine_map<(d0, d1) -> (1, d1, 1)>
#text = affine_map<(d0, d1) -> (1, d1, 8)>
#tiles = affine_map<(d0, d1) -> (d0, 4, 8)>
#flat = affine_map<(d0, d1) -> (d0 * 32)>
#long = affine_map<(d0, d1) -> (d1 * 8)>
#long1 = affine_map<(d0, d1) -> (d1 * 8, 1)>

// CHECK: module attributes {omnibal.image_token_id = 7 : i64, omnibal.tokens_per_tile = 4 : i64}
// CHECK-LABEL: func.func @scatter
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<1x?xi64, {{[^)]*}} %[[TEXT:[a-z0-9]+]]: tensor<1x?x8xf32, {{[^)]*}} %[[F:[a-z0-9]+]]: tensor<?x4x8xf32
// CHECK: %[[ROWS:.*]] = omnibal.batch_value "image_rows" : tensor<?xi32
// CHECK-NEXT: %[[M:.*]] = omnibal.image_merge %[[TEXT]], %[[F]], %[[ROWS]]
// CHECK-NEXT: return %[[M]]
func.func @scatter(%ids: tensor<1x?xi64, #ids> {omnibal.role = "ids"}, %text: tensor<1x?x8xf32, #text>, %features: tensor<?x4x8xf32, #tiles> {omnibal.role = "image"}) -> tensor<1x?x8xf32, #text> {
  %token = omnibal.constant dense<7> : tensor<i64>
  %zero = omnibal.constant dense<0> : tensor<1xi64>
  %one = omnibal.constant dense<1> : tensor<1xi64>
  %eq = omnibal.compare %ids, %token {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %eq1 = omnibal.reshape %eq : (tensor<1x?xi1, #ids>) -> tensor<1x?x1xi1, #ids1>
  %mask = omnibal.expand %eq1 : (tensor<1x?x1xi1, #ids1>) -> tensor<1x?x8xi1, #text>
  %at = omnibal.nonzero %mask : (tensor<1x?x8xi1, #text>) -> tensor<3x?xi64>
  %index = omnibal.transpose %at {permutation = array<i64: 1, 0>} : (tensor<3x?xi64>) -> tensor<?x3xi64>
  %flat = omnibal.reshape %features : (tensor<?x4x8xf32, #tiles>) -> tensor<?xf32, #flat>
  %shape = omnibal.shape %index {start = 0 : i64, end = 1 : i64} : (tensor<?x3xi64>) -> tensor<1xi64>
  %source = omnibal.slice %flat, %zero, %shape, %zero, %one {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?xf32, #flat>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  %y = omnibal.scatter_nd %text, %index, %source {reduction = "none"} : (tensor<1x?x8xf32, #text>, tensor<?x3xi64>, tensor<?xf32>) -> tensor<1x?x8xf32, #text>
  return %y : tensor<1x?x8xf32, #text>
}

// CHECK-LABEL: func.func @running_count
// CHECK: omnibal.image_merge
// CHECK-NOT: omnibal.cumsum
func.func @running_count(%ids: tensor<1x?xi64, #ids> {omnibal.role = "ids"}, %text: tensor<1x?x8xf32, #text>, %features: tensor<?x4x8xf32, #tiles> {omnibal.role = "image"}) -> tensor<1x?x8xf32, #text> {
  %token = omnibal.constant dense<7> : tensor<i64>
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %eq = omnibal.compare %ids, %token {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %eq1 = omnibal.reshape %eq : (tensor<1x?xi1, #ids>) -> tensor<1x?x1xi1, #ids1>
  %mask = omnibal.expand %eq1 : (tensor<1x?x1xi1, #ids1>) -> tensor<1x?x8xi1, #text>
  %long = omnibal.reshape %mask : (tensor<1x?x8xi1, #text>) -> tensor<?xi1, #long>
  %count = omnibal.cast %long : (tensor<?xi1, #long>) -> tensor<?xi64, #long>
  %sum = omnibal.cumsum %count {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?xi64, #long>) -> tensor<?xi64, #long>
  %less = omnibal.sub %sum, %one : (tensor<?xi64, #long>, tensor<i64>) -> tensor<?xi64, #long>
  %index = omnibal.max %less, %zero : (tensor<?xi64, #long>, tensor<i64>) -> tensor<?xi64, #long>
  %column = omnibal.reshape %index : (tensor<?xi64, #long>) -> tensor<?x1xi64, #long1>
  %flat = omnibal.reshape %features : (tensor<?x4x8xf32, #tiles>) -> tensor<?xf32, #flat>
  %picked = omnibal.gather_nd %flat, %column {batch_dims = 0 : i64} : (tensor<?xf32, #flat>, tensor<?x1xi64, #long1>) -> tensor<?xf32, #long>
  %before = omnibal.reshape %text : (tensor<1x?x8xf32, #text>) -> tensor<?xf32, #long>
  %after = omnibal.select %long, %picked, %before : (tensor<?xi1, #long>, tensor<?xf32, #long>, tensor<?xf32, #long>) -> tensor<?xf32, #long>
  %y = omnibal.reshape %after : (tensor<?xf32, #long>) -> tensor<1x?x8xf32, #text>
  return %y : tensor<1x?x8xf32, #text>
}

// Features that are added to the placeholders' rows: hidden[mask] += features.
// CHECK-LABEL: func.func @addition
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<1x?xi64, {{[^)]*}} %[[TEXT:[a-z0-9]+]]: tensor<1x?x8xf32, {{[^)]*}} %[[F:[a-z0-9]+]]: tensor<?x4x8xf32
// CHECK: %[[ROWS:.*]] = omnibal.batch_value "image_rows" : tensor<?xi32
// CHECK: %[[ZERO:.*]] = omnibal.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[ZEROS:.*]] = omnibal.expand %[[ZERO]]
// CHECK: %[[M:.*]] = omnibal.image_merge %[[ZEROS]], %[[F]], %[[ROWS]]
// CHECK: %[[SUM:.*]] = omnibal.add %[[TEXT]], %[[M]]
// CHECK-NEXT: return %[[SUM]]
func.func @addition(%ids: tensor<1x?xi64, #ids> {omnibal.role = "ids"}, %text: tensor<1x?x8xf32, #text>, %features: tensor<?x4x8xf32, #tiles> {omnibal.role = "image"}) -> tensor<1x?x8xf32, #text> {
  %token = omnibal.constant dense<7> : tensor<i64>
  %zero = omnibal.constant dense<0> : tensor<i64>
  %eq = omnibal.compare %ids, %token {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %eq1 = omnibal.reshape %eq : (tensor<1x?xi1, #ids>) -> tensor<1x?x1xi1, #ids1>
  %mask = omnibal.gather %eq1, %zero {axis = 2 : i64} : (tensor<1x?x1xi1, #ids1>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %at = omnibal.nonzero %mask : (tensor<1x?xi1, #ids>) -> tensor<2x?xi64>
  %index = omnibal.transpose %at {permutation = array<i64: 1, 0>} : (tensor<2x?xi64>) -> tensor<?x2xi64>
  %old = omnibal.gather_nd %text, %index {batch_dims = 0 : i64} : (tensor<1x?x8xf32, #text>, tensor<?x2xi64>) -> tensor<?x8xf32>
  %rows = omnibal.reshape %features : (tensor<?x4x8xf32, #tiles>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d0 * 4, 8)>>
  %new = omnibal.add %old, %rows : (tensor<?x8xf32>, tensor<?x8xf32, affine_map<(d0, d1) -> (d0 * 4, 8)>>) -> tensor<?x8xf32>
  %every1 = omnibal.reshape %mask : (tensor<1x?xi1, #ids>) -> tensor<1x?x1xi1, #ids1>
  %every = omnibal.expand %every1 : (tensor<1x?x1xi1, #ids1>) -> tensor<1x?x8xi1, #text>
  %all = omnibal.nonzero %every : (tensor<1x?x8xi1, #text>) -> tensor<3x?xi64>
  %places = omnibal.transpose %all {permutation = array<i64: 1, 0>} : (tensor<3x?xi64>) -> tensor<?x3xi64>
  %minus = omnibal.constant dense<-1> : tensor<1xi64>
  %flat = omnibal.reshape %new, %minus : (tensor<?x8xf32>, tensor<1xi64>) -> tensor<?xf32>
  %y = omnibal.scatter_nd %text, %places, %flat {reduction = "none"} : (tensor<1x?x8xf32, #text>, tensor<?x3xi64>, tensor<?xf32>) -> tensor<1x?x8xf32, #text>
  return %y : tensor<1x?x8xf32, #text>
}
