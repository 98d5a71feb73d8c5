// RUN: omnibal-opt %s --omnibal-verify-raised -split-input-file -verify-diagnostics

#row = affine_map<(d0, d1) -> (1, d1, 4)>
func.func @main() -> tensor<1x?x4xf32, #row> {
  %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #row>
  // expected-error @+1 {{reduces over tokens of the row, also across samples}}
  %m = omnibal.reduce %x {kind = 1 : i32, axes = array<i64: 1>, keepdims, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x4xf32, #row>) -> tensor<1x1x4xf32>
  %y = omnibal.sub %x, %m : (tensor<1x?x4xf32, #row>, tensor<1x1x4xf32>) -> tensor<1x?x4xf32, #row>
  return %y : tensor<1x?x4xf32, #row>
}

// -----

#row = affine_map<(d0, d1) -> (1, d1, 4)>
#tiles = affine_map<(d0, d1) -> (d0, 4)>
func.func @main() -> tensor<1x?x4xf32, #row> {
  // expected-error @+1 {{the place where their features replace placeholder tokens was not recognized}}
  %p = omnibal.batch_value "pixel_values" : tensor<?x4xf32, #tiles>
  %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #row>
  return %x : tensor<1x?x4xf32, #row>
}

// -----

#ids = affine_map<(d0, d1) -> (1, d1)>
#square = affine_map<(d0, d1) -> (1, d1, d1)>
func.func @main() -> tensor<1x?x?xf32, #square> {
  %x = omnibal.batch_value "x" : tensor<1x?x?xf32, #square>
  // expected-error @-1 {{computes on pairs of tokens; an attention was not recognized}}
  return %x : tensor<1x?x?xf32, #square>
}

// -----

// A convolution that looks at the next token, too, would look into the next sample.
#channels = affine_map<(d0, d1) -> (1, 4, d1)>
func.func @main() -> tensor<1x4x?xf32, #channels> {
  %x = omnibal.batch_value "x" : tensor<1x4x?xf32, #channels>
  %w = omnibal.batch_value "w" : tensor<4x1x3xf32>
  // expected-error @+1 {{is a convolution along the tokens that mixes channels or looks ahead}}
  %y = omnibal.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 4 : i64} : (tensor<1x4x?xf32, #channels>, tensor<4x1x3xf32>) -> tensor<1x4x?xf32, #channels>
  return %y : tensor<1x4x?xf32, #channels>
}
