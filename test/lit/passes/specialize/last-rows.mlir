// RUN: omnibal-opt %s --omnibal-specialize | FileCheck -enable-var-scope %s

// The last N of N tokens are all of them; the last N of N + 2 start at 2.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x?xi64, #[[ROW:[a-z0-9]+]]>
// CHECK-NEXT: %[[TWO:.*]] = omnibal.constant dense<[{{\[}}5, 6]]> : tensor<1x2xi64>
// CHECK-NEXT: %[[LONG:.*]] = omnibal.concat %[[TWO]], %[[X]]
// CHECK-NEXT: %[[LAST:.*]] = omnibal.slice %[[LONG]] {begin = array<i64: 0, 2>,{{.*}} step = array<i64: 1, 1>} {{.*}} -> tensor<1x?xi64, #[[ROW]]>
// CHECK-NEXT: return %[[X]], %[[LAST]]
module {
  func.func @main(%ids: tensor<?x?xi64> {omnibal.input = "ids"})
      -> (tensor<?x?xi64> {omnibal.output = "all"}, tensor<?x?xi64> {omnibal.output = "last"}) {
    %length = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<?x?xi64>) -> tensor<1xi64>
    %start = omnibal.neg %length : (tensor<1xi64>) -> tensor<1xi64>
    %end = omnibal.constant dense<9223372036854775807> : tensor<1xi64>
    %axis = omnibal.constant dense<1> : tensor<1xi64>
    %two = omnibal.constant dense<[[5, 6]]> : tensor<1x2xi64>
    %long = omnibal.concat %two, %ids {axis = 1 : i64} : (tensor<1x2xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
    %all = omnibal.slice %ids, %start, %end, %axis {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
    %last = omnibal.slice %long, %start, %end, %axis {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
    return %all, %last : tensor<?x?xi64>, tensor<?x?xi64>
  }
}
