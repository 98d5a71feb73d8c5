// RUN: omnibal-opt %s --omnibal-verify-layouts --split-input-file --verify-diagnostics
// One case for every constraint of layouts.

// layout_c1
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c1: needs a layout for each of 2 operands in omnibal.reads and of 1 results in omnibal.layouts}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c2: the weight must be copied where rows are split
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c2: operand 1 must be read #plan.layout<copied>, not #plan.layout<whole>}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<split(0 : N)>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<split(0 : N)>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c2: a norm is not linear
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c2: operands and results must be all whole, all copied, split along letters of the op, or partial where it is linear}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<partial>, #plan.layout<copied>], omnibal.layouts = [#plan.layout<partial>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c2: whole operands do not give copied results
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c2: operands and results must be all whole}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<copied>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c3: 3 units of 3 are not 8 columns
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c3: #plan.layout<split(1 : 3 x 3)> does not fit}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<split(1 : 3 x 3)>, #plan.layout<split(0 : 3 x 3)>], omnibal.layouts = [#plan.layout<split(1 : 3 x 3)>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c3: a border that does not fit
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  // expected-error @below {{layout_c3: #plan.layout<split(0 : V)> does not fit}}
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<split(0 : V)>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c4
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  // expected-error @below {{layout_c4: a border is whole or split, not #plan.layout<copied>}}
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<copied>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c4
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  // expected-error @below {{layout_c4: needs a layout for each of 2 inputs and outputs in omnibal.borders}}
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c5
omnibal.parameter @w : tensor<8xf32>
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    // expected-error @below {{layout_c5: reads parameter 0 of its layer as #plan.layout<copied>, but parts hold it as #plan.layout<whole>}}
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<split(0 : N)>, #plan.layout<copied>], omnibal.layouts = [#plan.layout<split(0 : N)>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// layout_c5
omnibal.parameter @w : tensor<8xf32> {omnibal.held = #plan.layout<partial>}
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  // expected-error @below {{layout_c5: omnibal.held of parameter 0 must be whole, copied, or a split that fits}}
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// legal: a copied parameter may be read as if it were whole
omnibal.parameter @w : tensor<8xf32> {omnibal.held = #plan.layout<copied>}
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<8xf32>
  %r = omnibal.layer "l" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<8xf32>):
    %y = omnibal.rms_norm %in, %w {axis = -1 : i64, epsilon = 1.0e-5 : f64, omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<8xf32>) -> tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
    omnibal.yield %y : tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>
  }
  return
}

// -----

// A layer without layouts is left alone.
func.func @main(%x: tensor<8xf32>) {
  %r = omnibal.layer "l" language inputs(%x) parameters() : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%in: tensor<8xf32>):
    %y = omnibal.neg %in : (tensor<8xf32>) -> tensor<8xf32>
    omnibal.yield %y : tensor<8xf32>
  }
  return
}

// -----

// layout_c3: hidden columns are closed
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<6x8xf32>
  %l = omnibal.layer "head" head inputs(%x) parameters(%p) attributes {omnibal.outputs = ["loss"], omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<6x8xf32>):
    %t = omnibal.batch_value "targets" {omnibal.layouts = [#plan.layout<whole>]} : tensor<?xi32, affine_map<(d0, d1) -> (d1)>>
    // expected-error @below {{layout_c3: a dimension is split that the op does not divide}}
    %y = omnibal.linear_cross_entropy %in, %w, %t {omnibal.reads = [#plan.layout<split(1 : 8)>, #plan.layout<split(1 : 8)>, #plan.layout<copied>], omnibal.layouts = [#plan.layout<partial>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>, tensor<?xi32, affine_map<(d0, d1) -> (d1)>>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
    omnibal.yield %y : tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
  }
  return
}
omnibal.parameter @w : tensor<6x8xf32>

// -----

// layout_c2: a loss of words that parts share is whole
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<6x8xf32>
  %l = omnibal.layer "head" head inputs(%x) parameters(%p) attributes {omnibal.outputs = ["loss"], omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<6x8xf32>):
    %t = omnibal.batch_value "targets" {omnibal.layouts = [#plan.layout<whole>]} : tensor<?xi32, affine_map<(d0, d1) -> (d1)>>
    // expected-error @below {{layout_c2: result 0 must be #plan.layout<whole>, not #plan.layout<partial>}}
    %y = omnibal.linear_cross_entropy %in, %w, %t {omnibal.reads = [#plan.layout<copied>, #plan.layout<split(0 : 6)>, #plan.layout<copied>], omnibal.layouts = [#plan.layout<partial>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>, tensor<?xi32, affine_map<(d0, d1) -> (d1)>>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
    omnibal.yield %y : tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
  }
  return
}
omnibal.parameter @w : tensor<6x8xf32>

// -----

// layout_c6
func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
  %p = omnibal.get_parameter @w : tensor<6x8xf32>
  // expected-error @below {{layout_c6: output 0 ("loss") must be made whole or split along tokens, and given whole or as it is made, not #plan.layout<copied> and #plan.layout<whole>}}
  %l = omnibal.layer "head" head inputs(%x) parameters(%p) attributes {omnibal.outputs = ["loss"], omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>> {
  ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<6x8xf32>):
    %t = omnibal.batch_value "targets" {omnibal.layouts = [#plan.layout<whole>]} : tensor<?xi32, affine_map<(d0, d1) -> (d1)>>
    %y = omnibal.linear_cross_entropy %in, %w, %t {omnibal.reads = [#plan.layout<copied>, #plan.layout<copied>, #plan.layout<copied>], omnibal.layouts = [#plan.layout<copied>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>, tensor<?xi32, affine_map<(d0, d1) -> (d1)>>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
    omnibal.yield %y : tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
  }
  return
}
omnibal.parameter @w : tensor<6x8xf32> {omnibal.held = #plan.layout<copied>}

// -----

// layout_c7: replicas of a context group sum what each of them has of a gradient
module attributes {omnibal.train_mode = #plan.train_mode<number = 0, name = "long", tiles = 1, tokens = 8, microbatches = 1, steps = 0, schedule = "1f1b", remat = "auto", degree = 2, last = unit>} {
  func.func @main(%x: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>) {
    %p = omnibal.get_parameter @w : tensor<6x8xf32>
    // expected-error @below {{layout_c7: holds parameter 0 otherwise than copied, but its parts are replicas}}
    %l = omnibal.layer "language.layers.0" language inputs(%x) parameters(%p) attributes {omnibal.borders = [#plan.layout<whole>, #plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>) -> tensor<?x6xf32, affine_map<(d0, d1) -> (d1, 6)>> {
    ^bb0(%in: tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, %w: tensor<6x8xf32>):
      %y = omnibal.linear %in, %w {omnibal.reads = [#plan.layout<whole>, #plan.layout<whole>], omnibal.layouts = [#plan.layout<whole>]} : (tensor<?x8xf32, affine_map<(d0, d1) -> (d1, 8)>>, tensor<6x8xf32>) -> tensor<?x6xf32, affine_map<(d0, d1) -> (d1, 6)>>
      omnibal.yield %y : tensor<?x6xf32, affine_map<(d0, d1) -> (d1, 6)>>
    }
    return
  }
  omnibal.parameter @w : tensor<6x8xf32>
}
