// RUN: omnibal-opt %s --omnibal-specialize -split-input-file -verify-diagnostics | FileCheck %s

// Inputs with rows per vision unit: V counts units, patches are four a unit.
// CHECK-DAG: #[[IDS:.*]] = affine_map<(d0, d1) -> (1, d1)>
// CHECK-DAG: #[[PATCHES:.*]] = affine_map<(d0, d1) -> (d0 * 4, 96)>
// CHECK-DAG: #[[UNITS:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[AXES:.*]] = affine_map<(d0, d1) -> (3, 1, d1)>
// CHECK-DAG: #[[MERGED:.*]] = affine_map<(d0, d1) -> (d0, 384)>
// CHECK: func.func @main(
// CHECK-SAME: tensor<1x?xi64, #[[IDS]]>
// CHECK-SAME: tensor<3x1x?xi64, #[[AXES]]>
// CHECK-SAME: tensor<?x96xf32, #[[PATCHES]]>
// CHECK-SAME: tensor<?xi64, #[[UNITS]]>
// CHECK: omnibal.reshape %{{.*}} -> tensor<?x384xf32, #[[MERGED]]>
func.func @main(%ids: tensor<?x?xi64> {omnibal.input = "input_ids", omnibal.dims = ["batch", "sequence"]},
    %positions: tensor<3x?x?xi64> {omnibal.input = "position_ids", omnibal.dims = ["3", "batch", "sequence"]},
    %pixels: tensor<?x96xf32> {omnibal.input = "pixel_values", omnibal.dims = ["4*units", "96"]},
    %window: tensor<?xi64> {omnibal.input = "image_window_index", omnibal.dims = ["units"]})
    -> (tensor<?x?xi64>, tensor<3x?x?xi64>, tensor<?x384xf32>, tensor<?xi64>) {
  %shape = omnibal.constant dense<[-1, 384]> : tensor<2xi64>
  %merged = omnibal.reshape %pixels, %shape : (tensor<?x96xf32>, tensor<2xi64>) -> tensor<?x384xf32>
  return %ids, %positions, %merged, %window : tensor<?x?xi64>, tensor<3x?x?xi64>, tensor<?x384xf32>, tensor<?xi64>
}

// -----

// Two symbols have no known relation.
func.func @main(%pixels: tensor<?x96xf32> {omnibal.input = "pixel_values", omnibal.dims = ["s48", "96"]},
    // expected-error @+1 {{graph input 'image_window_index' counts 's15', but 'pixel_values' counts 's48'}}
    %window: tensor<?xi64> {omnibal.input = "image_window_index", omnibal.dims = ["s15"]})
    -> (tensor<?x96xf32>, tensor<?xi64>) {
  return %pixels, %window : tensor<?x96xf32>, tensor<?xi64>
}

// -----

// expected-error @+1 {{the size '2*s1 + s2' of dimension 0 is not a multiple of one symbol}}
func.func @main(%pixels: tensor<?x96xf32> {omnibal.input = "pixel_values", omnibal.dims = ["2*s1 + s2", "96"]}) -> tensor<?x96xf32> {
  return %pixels : tensor<?x96xf32>
}

// -----

// Which pictures a token sees: the last dimension counts what the pictures' first one does.
// CHECK-DAG: #[[SEEN:.*]] = affine_map<(d0, d1) -> (1, d1, d0)>
// CHECK: func.func @main(
// CHECK-SAME: tensor<1x?x?xi64, #[[SEEN]]>
func.func @main(%ids: tensor<1x?xi64> {omnibal.input = "input_ids", omnibal.dims = ["1", "sequence"]},
    %pixels: tensor<?x3x4x4xf32> {omnibal.input = "pixel_values", omnibal.dims = ["images", "3", "4", "4"]},
    %seen: tensor<1x?x?xi64> {omnibal.input = "cross_attention_mask", omnibal.dims = ["1", "sequence", "images"]})
    -> (tensor<1x?xi64>, tensor<?x3x4x4xf32>, tensor<1x?x?xi64>) {
  return %ids, %pixels, %seen : tensor<1x?xi64>, tensor<?x3x4x4xf32>, tensor<1x?x?xi64>
}
