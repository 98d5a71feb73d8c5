// RUN: omnibal-opt %s --test-select-remat="choice=full" | FileCheck %s
// RUN: not omnibal-opt %s --test-select-remat="choice=some" 2>&1 | FileCheck %s --check-prefix=ERROR

// A decision that is there already stays.
// CHECK: omnibal.layer "first"
// CHECK-SAME: omnibal.remat = "keep"
// CHECK: omnibal.layer "second"
// CHECK-SAME: omnibal.remat = "full"
// ERROR: error: test-select-remat: choice is 'some'; known are 'keep', 'selective-1', 'selective-2' .. and 'full'
func.func @main() -> tensor<2xf32> {
  %a = omnibal.layer "first" vision inputs() parameters() attributes {omnibal.remat = "keep"} : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  %b = omnibal.layer "second" head inputs(%a) parameters() : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  return %b : tensor<2xf32>
}
