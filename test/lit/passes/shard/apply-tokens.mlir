// RUN: omnibal-opt %s --omnibal-verify-layouts --test-apply-layouts="parts=2 tiles=0 tokens=7" | FileCheck %s
// RUN: omnibal-opt %s --omnibal-verify-layouts --test-apply-layouts="parts=2" | FileCheck %s --check-prefix=OPEN

// A norm over split columns adds small sums inside; tokens are split, in a micro-batch of known size and in any: n are a part's own.
#NC = affine_map<(d0, d1) -> (d1, 8)>

omnibal.parameter @norm : tensor<8xf32> {omnibal.held = #plan.layout<split(0 : 4 x 2)>}

// OPEN-DAG: #[[OWN:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, 8)>
// OPEN-DAG: #[[ALL:.*]] = affine_map<(d0, d1) -> (d1, 8)>
// OPEN-DAG: #[[HALF:.*]] = affine_map<(d0, d1) -> (d1, 4)>
// OPEN-LABEL: func.func @norm_part1(
// OPEN-SAME: %[[X:.*]]: tensor<?x8xf32, #[[OWN]]>, %{{.*}}: tensor<4xf32>) -> tensor<?x8xf32, #[[OWN]]>
// OPEN: omnibal.reshard %[[X]] from <split(0 : N)> to <split(1 : 4 x 2)> parts 2 of tensor<?x8xf32, #[[ALL]]> : (tensor<?x8xf32, #[[OWN]]>) -> tensor<?x4xf32, #[[HALF]]>
// OPEN: omnibal.reshard %{{.*}} from <split(1 : 4 x 2)> to <split(0 : N)>

// CHECK-LABEL: func.func @norm_part1(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[N:.*]]: tensor<4xf32>) -> tensor<4x8xf32>
// CHECK: %[[C:.*]] = omnibal.reshard %[[X]] from <split(0 : 7)> to <split(1 : 4 x 2)> parts 2 of tensor<7x8xf32> : (tensor<4x8xf32>) -> tensor<7x4xf32>
// CHECK: omnibal.mul %[[C]], %[[C]]
// CHECK: %[[S:.*]] = omnibal.reduce
// CHECK: omnibal.reshard %[[S]] from <partial> to <copied> parts 2 of tensor<7x1xf32>
// CHECK: %[[Y:.*]] = omnibal.mul %{{.*}}, %[[N]]
// CHECK: omnibal.reshard %[[Y]] from <split(1 : 4 x 2)> to <split(0 : 7)>
func.func @main(%x: tensor<?x8xf32, #NC>) {
  %pn = omnibal.get_parameter @norm : tensor<8xf32>
  %r = omnibal.layer "norm" language inputs(%x) parameters(%pn)
      attributes {omnibal.borders = [#plan.layout<split(0 : N)>, #plan.layout<split(0 : N)>]}
      : (tensor<?x8xf32, #NC>, tensor<8xf32>) -> tensor<?x8xf32, #NC> {
  ^bb0(%in: tensor<?x8xf32, #NC>, %n: tensor<8xf32>):
    %a = omnibal.rms_norm %in, %n {axis = -1 : i64, epsilon = 1.0e-5 : f64,
      omnibal.reads = [#plan.layout<split(1 : 4 x 2)>, #plan.layout<split(0 : 4 x 2)>], omnibal.layouts = [#plan.layout<split(1 : 4 x 2)>]}
      : (tensor<?x8xf32, #NC>, tensor<8xf32>) -> tensor<?x8xf32, #NC>
    omnibal.yield %a : tensor<?x8xf32, #NC>
  }
  return
}
