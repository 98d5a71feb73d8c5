// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.](q|up)$ rank=2 alpha=4 dora" --omnibal-attach-loss -o %t.mlir
// RUN: echo '{"format": "omnibal.layouts/1", "parameters": [{"match": "^text[.].[.]up$", "layout": "split(0 : 12)"}, {"match": "^text[.].[.]q$", "layout": "split(1 : 8)"}]}' > %t.json
// RUN: omnibal-opt %t.mlir --omnibal-attach-cluster="parts=2" --omnibal-assign-layouts="layouts=%t.json" --omnibal-verify-layouts \
// RUN:   | FileCheck %s -implicit-check-not="omnibal.row_squares"

// Parts that hold columns of a weight have summands of the squares of its rows, which take A's columns of what all have,
// and parts that hold rows have these rows' squares. No gradient passes, so nothing is sent for A and B.
// CHECK: omnibal.layer "language.layers.0"
// CHECK: omnibal.row_squares {{.*}} {omnibal.layouts = [#plan.layout<partial>], omnibal.reads = [#plan.layout<split(1 : 8)>, #plan.layout<split(1 : 8)>, #plan.layout<copied>], scale = {{.*}}} : (tensor<8x8xf32>,
// CHECK: omnibal.rsqrt {{.*}} {omnibal.layouts = [#plan.layout<whole>], omnibal.reads = [#plan.layout<whole>]}
// CHECK: omnibal.row_squares {{.*}} {omnibal.layouts = [#plan.layout<split(0 : 12)>], omnibal.reads = [#plan.layout<split(0 : 12)>, #plan.layout<copied>, #plan.layout<split(0 : 12)>], scale = {{.*}}} : (tensor<12x8xf32>,
// CHECK: omnibal.layer "language.layers.1"
// CHECK-COUNT-2: omnibal.row_squares
