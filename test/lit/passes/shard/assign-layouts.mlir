// RUN: echo '{"format": "omnibal.layouts/1", "parameters": [{"match": "^up", "layout": "split(0 : 5)"}, {"match": "down|up", "layout": "split(1 : 5)"}]}' > %t.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-assign-layouts="layouts=%t.json" --omnibal-verify-layouts \
// RUN:   --test-apply-layouts="parts=2" | FileCheck %S/apply-layouts.mlir
// RUN: echo '{"format": "omnibal.layouts/1", "parameters": [{"match": "bias", "layout": "whole"}]}' > %t.whole.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-assign-layouts="layouts=%t.whole.json" | FileCheck %s --check-prefix=NONE
// RUN: not omnibal-opt %s --omnibal-assign-layouts="layouts=%t.json" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: echo '{"format": "omnibal.layouts/2", "parameters": []}' > %t.other.json
// RUN: not omnibal-opt %s --omnibal-assign-layouts="layouts=%t.other.json" 2>&1 | FileCheck %s --check-prefix=OTHER

// What apply-layouts.mlir has by hand follows from how the two weights are held; the first entry that matches counts.
// NONE-NOT: omnibal.reads
// ALONE: layouts are of the parts of a stage, and there is one part
// OTHER: "omnibal.layouts/1" is expected

#NC = affine_map<(d0, d1) -> (d1, 8)>
#NF = affine_map<(d0, d1) -> (d1, 5)>

omnibal.parameter @norm : tensor<8xf32>
omnibal.parameter @up : tensor<5x8xf32>
omnibal.parameter @down : tensor<8x5xf32>
omnibal.parameter @bias : tensor<8xf32>

func.func @main(%x: tensor<?x8xf32, #NC>) {
  %pn = omnibal.get_parameter @norm : tensor<8xf32>
  %pu = omnibal.get_parameter @up : tensor<5x8xf32>
  %pd = omnibal.get_parameter @down : tensor<8x5xf32>
  %pb = omnibal.get_parameter @bias : tensor<8xf32>
  %r = omnibal.layer "mlp" language inputs(%x) parameters(%pn, %pu, %pd, %pb)
      : (tensor<?x8xf32, #NC>, tensor<8xf32>, tensor<5x8xf32>, tensor<8x5xf32>, tensor<8xf32>) -> tensor<?x8xf32, #NC> {
  ^bb0(%in: tensor<?x8xf32, #NC>, %n: tensor<8xf32>, %u: tensor<5x8xf32>, %d: tensor<8x5xf32>, %b: tensor<8xf32>):
    %a = omnibal.rms_norm %in, %n {axis = -1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<?x8xf32, #NC>, tensor<8xf32>) -> tensor<?x8xf32, #NC>
    %h = omnibal.linear %a, %u
      : (tensor<?x8xf32, #NC>, tensor<5x8xf32>) -> tensor<?x5xf32, #NF>
    %s = omnibal.silu %h
      : (tensor<?x5xf32, #NF>) -> tensor<?x5xf32, #NF>
    %y = omnibal.linear %s, %d, %b
      : (tensor<?x5xf32, #NF>, tensor<8x5xf32>, tensor<8xf32>) -> tensor<?x8xf32, #NC>
    %o = omnibal.add %in, %y
      : (tensor<?x8xf32, #NC>, tensor<?x8xf32, #NC>) -> tensor<?x8xf32, #NC>
    omnibal.yield %o : tensor<?x8xf32, #NC>
  }
  return
}
