// RUN: omnibal-opt %s --omnibal-raise-positions -split-input-file | FileCheck -enable-var-scope %s

// Positions counted up to the length of the attention mask: the range goes, and with it the only use of the mask.
#ids = affine_map<(d0, d1) -> (1, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: func.func @main() ->
// CHECK-NOT: omnibal.{{shape|range}}
// CHECK: %[[POSITIONS:.*]] = omnibal.batch_value "positions" : tensor<?xi32
// CHECK: %[[FLOAT:.*]] = omnibal.cast {{.*}} -> tensor<?xf32
// CHECK: return %[[FLOAT]]
func.func @main(%ids: tensor<1x?xi64, #ids> {omnibal.input = "input_ids", omnibal.role = "ids"},
                %mask: tensor<1x?xi64, #ids> {omnibal.input = "attention_mask", omnibal.role = "visibility"}) -> tensor<?xf32, #row> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %mask {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %float = omnibal.cast %iota : (tensor<?xi64, #row>) -> tensor<?xf32, #row>
  return %float : tensor<?xf32, #row>
}

// -----

// Row numbers computed from ids are narrowed to what kernels take.
#ids = affine_map<(d0, d1) -> (1, d1)>
#rows = affine_map<(d0, d1) -> (1, d1, 4)>

// CHECK-LABEL: func.func @main() ->
// CHECK: %[[CHOSEN:.*]] = omnibal.select {{.*}} -> tensor<1x?xi64
// CHECK: %[[NARROW:.*]] = omnibal.cast %[[CHOSEN]] : {{.*}} -> tensor<1x?xi32
// CHECK: omnibal.embedding %{{.*}}, %[[NARROW]]
module {
  omnibal.parameter @table : tensor<9x4xf32>
  func.func @main(%ids: tensor<1x?xi64, #ids> {omnibal.input = "input_ids", omnibal.role = "ids"}) -> tensor<1x?x4xf32, #rows> {
    %zero = omnibal.constant dense<0> : tensor<i64>
    %picture = omnibal.constant dense<7> : tensor<i64>
    %is = omnibal.compare %ids, %picture {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
    %chosen = omnibal.select %is, %zero, %ids : (tensor<1x?xi1, #ids>, tensor<i64>, tensor<1x?xi64, #ids>) -> tensor<1x?xi64, #ids>
    %table = omnibal.get_parameter @table : tensor<9x4xf32>
    %y = omnibal.embedding %table, %chosen : (tensor<9x4xf32>, tensor<1x?xi64, #ids>) -> tensor<1x?x4xf32, #rows>
    return %y : tensor<1x?x4xf32, #rows>
  }
}
