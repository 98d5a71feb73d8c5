// RUN: omnibal-opt %s --omnibal-select-logits --omnibal-raise-router-loss -split-input-file -verify-diagnostics

#logits = affine_map<(d0, d1) -> (1, d1, 4)>
module {
  // expected-error @+1 {{do not say how much of it counts (omnibal.router_loss_coefficient); give --router-loss-coefficient X}}
  func.func @main() -> (tensor<1x?x4xf32, #logits> {omnibal.output = "logits"}, tensor<f32> {omnibal.output = "router_loss"}) {
    %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #logits>
    %sum = omnibal.reduce %x {kind = 0 : i32, axes = array<i64: 0, 1, 2>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x4xf32, #logits>) -> tensor<f32>
    return %x, %sum : tensor<1x?x4xf32, #logits>, tensor<f32>
  }
}

// -----

#logits = affine_map<(d0, d1) -> (1, d1, 4)>
module attributes {omnibal.router_loss_coefficient = 0.5 : f64} {
  // expected-error @+1 {{a coefficient of the routers' loss is given, but the graph has no output router_loss}}
  func.func @main() -> (tensor<1x?x4xf32, #logits> {omnibal.output = "logits"}) {
    %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #logits>
    return %x : tensor<1x?x4xf32, #logits>
  }
}

// -----

#logits = affine_map<(d0, d1) -> (1, d1, 4)>
module attributes {omnibal.router_loss_coefficient = 0.5 : f64} {
  // expected-error @+1 {{the graph output router_loss is 'tensor<4xf32>', not one float32 number}}
  func.func @main() -> (tensor<1x?x4xf32, #logits> {omnibal.output = "logits"}, tensor<4xf32> {omnibal.output = "router_loss"}) {
    %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #logits>
    %sum = omnibal.reduce %x {kind = 0 : i32, axes = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x4xf32, #logits>) -> tensor<4xf32>
    return %x, %sum : tensor<1x?x4xf32, #logits>, tensor<4xf32>
  }
}

// -----

// A maximum over the tokens would see rows that are none.
#logits = affine_map<(d0, d1) -> (1, d1, 4)>
module attributes {omnibal.router_loss_coefficient = 0.5 : f64} {
  func.func @main() -> (tensor<1x?x4xf32, #logits> {omnibal.output = "logits"}, tensor<f32> {omnibal.output = "router_loss"}) {
    %x = omnibal.batch_value "x" : tensor<1x?x4xf32, #logits>
    // expected-error @+1 {{something else than sums over the tokens, which is not supported; give --router-loss-coefficient 0}}
    %sum = omnibal.reduce %x {kind = 2 : i32, axes = array<i64: 0, 1, 2>, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?x4xf32, #logits>) -> tensor<f32>
    return %x, %sum : tensor<1x?x4xf32, #logits>, tensor<f32>
  }
}
