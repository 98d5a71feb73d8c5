// RUN: omnibal-opt %s --omnibal-raise-attention -split-input-file -verify-diagnostics

// Tokens that see no picture are hidden everything from: what a softmax of that is depends on the framework.
#seen = affine_map<(d0, d1) -> (1, d1, d0)>
#mask = affine_map<(d0, d1) -> (1, 1, d1, d0)>
#q = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#k = affine_map<(d0, d1) -> (1, 2, d0, 4)>
#lse = affine_map<(d0, d1) -> (1, 2, d1)>
func.func @none(%seen: tensor<1x?x?xi1, #seen> {omnibal.input = "cross_attention_mask", omnibal.role = "seen"}, %q: tensor<1x2x?x4xf32, #q> {omnibal.role = "image"},
    %k: tensor<1x2x?x4xf32, #k> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #q> {
  %mask = omnibal.reshape %seen : (tensor<1x?x?xi1, #seen>) -> tensor<1x1x?x?xi1, #mask>
  // expected-error @+1 {{hides all pictures from tokens that see none; such tokens must see all of their sample's pictures}}
  %y, %l = omnibal.attention %q, %k, %k, %mask {mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #q>, tensor<1x2x?x4xf32, #k>, tensor<1x2x?x4xf32, #k>, tensor<1x1x?x?xi1, #mask>) -> (tensor<1x2x?x4xf32, #q>, tensor<1x2x?xf32, #lse>)
  return %y : tensor<1x2x?x4xf32, #q>
}

// -----

// Nothing says which pictures are of a token's sample.
#q = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#k = affine_map<(d0, d1) -> (1, 2, d0, 4)>
#lse = affine_map<(d0, d1) -> (1, 2, d1)>
func.func @unmasked(%q: tensor<1x2x?x4xf32, #q> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #k> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #q> {
  // expected-error @+1 {{whose mask does not depend on graph input 'cross_attention_mask' alone: which pictures a token sees cannot be told}}
  %y, %l = omnibal.attention %q, %k, %k {mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #q>, tensor<1x2x?x4xf32, #k>, tensor<1x2x?x4xf32, #k>) -> (tensor<1x2x?x4xf32, #q>, tensor<1x2x?xf32, #lse>)
  return %y : tensor<1x2x?x4xf32, #q>
}

// -----

// Only the first row of each picture is seen: the others are empty tiles, say.
#seen = affine_map<(d0, d1) -> (1, d1, d0)>
#seen4 = affine_map<(d0, d1) -> (1, d1, d0, 1)>
#rows = affine_map<(d0, d1) -> (1, d1, d0, 2)>
#mask = affine_map<(d0, d1) -> (1, 1, d1, d0 * 2)>
#any = affine_map<(d0, d1) -> (1, 1, d1, 1)>
#q = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#k = affine_map<(d0, d1) -> (1, 2, d0 * 2, 4)>
#lse = affine_map<(d0, d1) -> (1, 2, d1)>
func.func @parts(%seen: tensor<1x?x?xi1, #seen> {omnibal.input = "cross_attention_mask", omnibal.role = "seen"}, %q: tensor<1x2x?x4xf32, #q> {omnibal.role = "image"},
    %k: tensor<1x2x?x4xf32, #k> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #q> {
  %column = omnibal.reshape %seen : (tensor<1x?x?xi1, #seen>) -> tensor<1x?x?x1xi1, #seen4>
  %first = omnibal.constant dense<[true, false]> : tensor<2xi1>
  %each = omnibal.and %column, %first : (tensor<1x?x?x1xi1, #seen4>, tensor<2xi1>) -> tensor<1x?x?x2xi1, #rows>
  %flat = omnibal.reshape %each : (tensor<1x?x?x2xi1, #rows>) -> tensor<1x1x?x?xi1, #mask>
  %number = omnibal.cast %flat : (tensor<1x1x?x?xi1, #mask>) -> tensor<1x1x?x?xi64, #mask>
  %any = omnibal.reduce %number {kind = 2 : i32, axes = array<i64: 3>, keepdims} : (tensor<1x1x?x?xi64, #mask>) -> tensor<1x1x?x1xi64, #any>
  %zero = omnibal.constant dense<0> : tensor<i64>
  %none = omnibal.compare %any, %zero {predicate = 0 : i32} : (tensor<1x1x?x1xi64, #any>, tensor<i64>) -> tensor<1x1x?x1xi1, #any>
  %mask = omnibal.or %flat, %none : (tensor<1x1x?x?xi1, #mask>, tensor<1x1x?x1xi1, #any>) -> tensor<1x1x?x?xi1, #mask>
  // expected-error @+1 {{does not show the pictures that the input says, all rows of them}}
  %y, %l = omnibal.attention %q, %k, %k, %mask {mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #q>, tensor<1x2x?x4xf32, #k>, tensor<1x2x?x4xf32, #k>, tensor<1x1x?x?xi1, #mask>) -> (tensor<1x2x?x4xf32, #q>, tensor<1x2x?xf32, #lse>)
  return %y : tensor<1x2x?x4xf32, #q>
}

// -----

// What follows from the input is read elsewhere: the number of pictures that a token sees.
#seen = affine_map<(d0, d1) -> (1, d1, d0)>
#count = affine_map<(d0, d1) -> (1, d1, 1)>
#text = affine_map<(d0, d1) -> (1, d1, 8)>
func.func @count(%seen: tensor<1x?x?xf32, #seen> {omnibal.input = "cross_attention_mask", omnibal.role = "seen"}, %x: tensor<1x?x8xf32, #text> {omnibal.role = "image"}) -> tensor<1x?x8xf32, #text> {
  %count = omnibal.reduce %seen {kind = 0 : i32, axes = array<i64: 2>, keepdims} : (tensor<1x?x?xf32, #seen>) -> tensor<1x?x1xf32, #count>
  // expected-error @+1 {{neither a mask of attention to pictures nor a factor of 1 for tokens that see a picture and 0 for others}}
  %y = omnibal.mul %x, %count : (tensor<1x?x8xf32, #text>, tensor<1x?x1xf32, #count>) -> tensor<1x?x8xf32, #text>
  return %y : tensor<1x?x8xf32, #text>
}
