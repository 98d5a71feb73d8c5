// RUN: omnibal-opt %s --omnibal-specialize | FileCheck -enable-var-scope %s

// Batch is 1, the row has N tokens, shapes computed from sizes become types, and what computed
// them is gone.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x?xi64, #[[ROW:[a-z0-9]+]]> {{.*}}omnibal.input = "ids"
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<?x3x4x4xf32, #[[TILES:[a-z0-9]+]]>
// CHECK-NEXT: %[[R:.*]] = omnibal.reshape %[[P]] : (tensor<?x3x4x4xf32, #[[TILES]]>) -> tensor<?x6x8xf32
// CHECK-NEXT: return %[[R]]
module {
  func.func @main(%ids: tensor<?x?xi64> {omnibal.input = "ids"},
                  %pixels: tensor<?x3x4x4xf32> {omnibal.input = "pixels"})
      -> (tensor<?x6x8xf32> {omnibal.output = "y"}) {
    %shape = omnibal.shape %pixels {start = 0 : i64, end = 1 : i64} : (tensor<?x3x4x4xf32>) -> tensor<1xi64>
    %count = omnibal.squeeze %shape : (tensor<1xi64>) -> tensor<i64>
    %minus = omnibal.constant dense<-1> : tensor<1xi64>
    %again = omnibal.reshape %count, %minus : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>
    %six = omnibal.constant dense<[6]> : tensor<1xi64>
    %target = omnibal.concat %again, %six, %minus {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
    %y = omnibal.reshape %pixels, %target : (tensor<?x3x4x4xf32>, tensor<3xi64>) -> tensor<?x6x8xf32>
    return %y : tensor<?x6x8xf32>
  }
}
