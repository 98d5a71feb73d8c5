// RUN: omnibal-opt %s --omnibal-verify-layouts --test-apply-layouts="parts=2" | FileCheck %s
// RUN: omnibal-opt %s --test-apply-layouts="parts=3" | omnibal-opt --mlir-print-op-generic > /dev/null

// An MLP as Megatron splits it: a norm that all parts do, inner columns by part, and one sum behind.
#NC = affine_map<(d0, d1) -> (d1, 8)>
#NF = affine_map<(d0, d1) -> (d1, 5)>

omnibal.parameter @norm : tensor<8xf32>
omnibal.parameter @up : tensor<5x8xf32> {omnibal.held = #plan.layout<split(0 : 5)>}
omnibal.parameter @down : tensor<8x5xf32> {omnibal.held = #plan.layout<split(1 : 5)>}
omnibal.parameter @bias : tensor<8xf32>

// CHECK-LABEL: func.func @mlp_part0(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32, #{{.*}}>, %[[N:.*]]: tensor<8xf32>, %[[U:.*]]: tensor<2x8xf32>, %[[D:.*]]: tensor<8x2xf32>, %[[B:.*]]: tensor<8xf32>) -> tensor<?x8xf32, #{{.*}}>
// CHECK: %[[A:.*]] = omnibal.rms_norm %[[X]], %[[N]] {axis = -1 : i64, epsilon = 1.000000e-05 : f64} :
// CHECK: %[[F:.*]] = omnibal.reshard %[[A]] from <whole> to <copied> parts 2 of tensor<?x8xf32, #{{.*}}>
// CHECK: %[[H:.*]] = omnibal.linear %[[F]], %[[U]] {{.*}} -> tensor<?x2xf32
// CHECK: %[[S:.*]] = omnibal.silu %[[H]]
// CHECK: %[[P:.*]] = omnibal.reshard %[[B]] from <whole> to <partial> parts 2 of tensor<8xf32>
// CHECK: %[[Y:.*]] = omnibal.linear %[[S]], %[[D]], %[[P]]
// CHECK: %[[G:.*]] = omnibal.reshard %[[Y]] from <partial> to <whole> parts 2 of tensor<?x8xf32, #{{.*}}>
// CHECK: %[[R:.*]] = omnibal.add %[[X]], %[[G]]
// CHECK: return %[[R]]
// CHECK-LABEL: func.func @mlp_part1(
// CHECK-SAME: tensor<3x8xf32>, %{{.*}}: tensor<8x3xf32>
func.func @main(%x: tensor<?x8xf32, #NC>) {
  %pn = omnibal.get_parameter @norm : tensor<8xf32>
  %pu = omnibal.get_parameter @up : tensor<5x8xf32>
  %pd = omnibal.get_parameter @down : tensor<8x5xf32>
  %pb = omnibal.get_parameter @bias : tensor<8xf32>
  %r = omnibal.layer "mlp" language inputs(%x) parameters(%pn, %pu, %pd, %pb)
      attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]}
      : (tensor<?x8xf32, #NC>, tensor<8xf32>, tensor<5x8xf32>, tensor<8x5xf32>, tensor<8xf32>) -> tensor<?x8xf32, #NC> {
  ^bb0(%in: tensor<?x8xf32, #NC>, %n: tensor<8xf32>, %u: tensor<5x8xf32>, %d: tensor<8x5xf32>, %b: tensor<8xf32>):
    %a = omnibal.rms_norm %in, %n {axis = -1 : i64, epsilon = 1.0e-5 : f64,
      omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]}
      : (tensor<?x8xf32, #NC>, tensor<8xf32>) -> tensor<?x8xf32, #NC>
    %h = omnibal.linear %a, %u {
      omnibal.reads = [#plan.layout<copied>, #plan.layout<split(0 : 5)>], omnibal.layouts = [#plan.layout<split(1 : 5)>]}
      : (tensor<?x8xf32, #NC>, tensor<5x8xf32>) -> tensor<?x5xf32, #NF>
    %s = omnibal.silu %h {
      omnibal.reads = [#plan.layout<split(1 : 5)>], omnibal.layouts = [#plan.layout<split(1 : 5)>]}
      : (tensor<?x5xf32, #NF>) -> tensor<?x5xf32, #NF>
    %y = omnibal.linear %s, %d, %b {
      omnibal.reads = [#plan.layout<split(1 : 5)>, #plan.layout<split(1 : 5)>, #plan.layout<partial>], omnibal.layouts = [#plan.layout<partial>]}
      : (tensor<?x5xf32, #NF>, tensor<8x5xf32>, tensor<8xf32>) -> tensor<?x8xf32, #NC>
    %o = omnibal.add %in, %y {
      omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]}
      : (tensor<?x8xf32, #NC>, tensor<?x8xf32, #NC>) -> tensor<?x8xf32, #NC>
    omnibal.yield %o : tensor<?x8xf32, #NC>
  }
  return
}
