// RUN: omnibal-opt %s --omnibal-classify-inputs | FileCheck %s --check-prefix=ROLES
// RUN: omnibal-opt %s --omnibal-classify-inputs --omnibal-raise-positions | FileCheck %s

// A mask whose running sums number rows of a table of positions stays a mask; what is such a number itself is a position.
#ids = affine_map<(d0, d1) -> (1, d1)>
#rows = affine_map<(d0, d1) -> (1, d1, 4)>

// ROLES-LABEL: func.func @main
// ROLES-SAME: omnibal.input = "input_ids", omnibal.role = "ids"
// ROLES-SAME: omnibal.input = "attention_mask", omnibal.role = "visibility"
// ROLES-SAME: omnibal.input = "place", omnibal.role = "positions"
// Of nine rows of places, the numbers reach the last seven: a sample has seven tokens at most.
// CHECK: module attributes {omnibal.positions = 7 : i64}
// CHECK: %[[POSITIONS:.*]] = omnibal.batch_value "positions"
// CHECK: %[[TWO:.*]] = omnibal.constant dense<2> : tensor<i32>
// CHECK: omnibal.add %[[POSITIONS]], %[[TWO]]
module {
  omnibal.parameter @table : tensor<9x4xf32>
  omnibal.parameter @places : tensor<9x4xf32>
  func.func @main(%ids: tensor<1x?xi64, #ids> {omnibal.input = "input_ids"}, %mask: tensor<1x?xi64, #ids> {omnibal.input = "attention_mask"},
                  %place: tensor<1x?xi64, #ids> {omnibal.input = "place"}) -> tensor<1x?x4xf32, #rows> {
    %one = omnibal.constant dense<1> : tensor<i64>
    %table = omnibal.get_parameter @table : tensor<9x4xf32>
    %places = omnibal.get_parameter @places : tensor<9x4xf32>
    %x = omnibal.embedding %table, %ids : (tensor<9x4xf32>, tensor<1x?xi64, #ids>) -> tensor<1x?x4xf32, #rows>
    %sums = omnibal.cumsum %mask {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?xi64, #ids>) -> tensor<1x?xi64, #ids>
    %seen = omnibal.mul %sums, %mask : (tensor<1x?xi64, #ids>, tensor<1x?xi64, #ids>) -> tensor<1x?xi64, #ids>
    %numbers = omnibal.add %seen, %one : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi64, #ids>
    %p = omnibal.embedding %places, %numbers : (tensor<9x4xf32>, tensor<1x?xi64, #ids>) -> tensor<1x?x4xf32, #rows>
    %q = omnibal.embedding %places, %place : (tensor<9x4xf32>, tensor<1x?xi64, #ids>) -> tensor<1x?x4xf32, #rows>
    %xp = omnibal.add %x, %p : (tensor<1x?x4xf32, #rows>, tensor<1x?x4xf32, #rows>) -> tensor<1x?x4xf32, #rows>
    %y = omnibal.add %xp, %q : (tensor<1x?x4xf32, #rows>, tensor<1x?x4xf32, #rows>) -> tensor<1x?x4xf32, #rows>
    return %y : tensor<1x?x4xf32, #rows>
  }
}
