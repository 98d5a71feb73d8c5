// RUN: omnibal-opt %s --omnibal-form-layers --omnibal-freeze=parts=vision 2>&1 | FileCheck %s

// Names that say another part than the graph: a warning at the first op that reads such a parameter, and the graph
// counts. A name that says nothing, or what the graph says, is no reason to warn.
// CHECK-DAG: warning: parameter 'merger.patches': by name projector, by the graph vision (it is read no later than by the norm that ends the tower). The graph counts: --freeze vision freezes it; use --freeze-match to choose by name
// CHECK-DAG: warning: parameter 'vision_tower.up' and 1 more: by name vision, by the graph projector (it is read where features have left the tower's width or rows). The graph counts: --freeze projector freezes it; use --freeze-match to choose by name
// CHECK-NOT: warning
// CHECK: omnibal.parameter @merger.patches : tensor<8x6xf32> {frozen}
// CHECK: omnibal.parameter @zebra.norm : tensor<8xf32> {frozen}
// CHECK: omnibal.parameter @vision_tower.up : tensor<12x8xf32>{{$}}
// CHECK: omnibal.parameter @vision_tower.out : tensor<12x12xf32>{{$}}
#rows = affine_map<(d0, d1) -> (d0, 4, 6)>
#features = affine_map<(d0, d1) -> (d0, 4, 8)>
#projected = affine_map<(d0, d1) -> (d0, 4, 12)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#text = affine_map<(d0, d1) -> (1, d1, 12)>
#logits = affine_map<(d0, d1) -> (1, d1, 32)>
module {
  omnibal.parameter @merger.patches : tensor<8x6xf32>
  omnibal.parameter @zebra.norm : tensor<8xf32>
  omnibal.parameter @vision_tower.up : tensor<12x8xf32>
  omnibal.parameter @vision_tower.out : tensor<12x12xf32>
  omnibal.parameter @table : tensor<32x12xf32>
  func.func @main() -> (tensor<1x?x32xf32, #logits> {omnibal.output = "logits"}) {
    %patches = omnibal.get_parameter @merger.patches : tensor<8x6xf32>
    %scale = omnibal.get_parameter @zebra.norm : tensor<8xf32>
    %up = omnibal.get_parameter @vision_tower.up : tensor<12x8xf32>
    %out = omnibal.get_parameter @vision_tower.out : tensor<12x12xf32>
    %table = omnibal.get_parameter @table : tensor<32x12xf32>
    %pixels = omnibal.batch_value "pixel_values" : tensor<?x4x6xf32, #rows>
    %x = omnibal.linear %pixels, %patches {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4x6xf32, #rows>, tensor<8x6xf32>) -> tensor<?x4x8xf32, #features>
    %n = omnibal.rms_norm %x, %scale {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (tensor<?x4x8xf32, #features>, tensor<8xf32>) -> tensor<?x4x8xf32, #features>
    %p = omnibal.linear %n, %up {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4x8xf32, #features>, tensor<12x8xf32>) -> tensor<?x4x12xf32, #projected>
    %g = omnibal.silu %p : (tensor<?x4x12xf32, #projected>) -> tensor<?x4x12xf32, #projected>
    %f = omnibal.linear %g, %out {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4x12xf32, #projected>, tensor<12x12xf32>) -> tensor<?x4x12xf32, #projected>
    %row = omnibal.batch_value "input_ids" : tensor<?xi32, #row>
    %ids = omnibal.reshape %row : (tensor<?xi32, #row>) -> tensor<1x?xi32, #ids>
    %e = omnibal.embedding %table, %ids : (tensor<32x12xf32>, tensor<1x?xi32, #ids>) -> tensor<1x?x12xf32, #text>
    %where = omnibal.batch_value "image_rows" : tensor<?xi32, #row>
    %m = omnibal.image_merge %e, %f, %where : (tensor<1x?x12xf32, #text>, tensor<?x4x12xf32, #projected>, tensor<?xi32, #row>) -> tensor<1x?x12xf32, #text>
    %s = omnibal.silu %m : (tensor<1x?x12xf32, #text>) -> tensor<1x?x12xf32, #text>
    %logits = omnibal.linear %s, %table {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x?x12xf32, #text>, tensor<32x12xf32>) -> tensor<1x?x32xf32, #logits>
    return %logits : tensor<1x?x32xf32, #logits>
  }
}
