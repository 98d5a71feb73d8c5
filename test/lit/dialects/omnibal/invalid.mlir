// RUN: omnibal-opt %s --split-input-file --verify-diagnostics
// One case for every numbered constraint of the tensor and neural-network ops (docs/dialect.md).

// shape_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>) {
  // expected-error @below {{result 0 has shape [2, 4] but its operands give [2, 3]}}
  %r = omnibal.add %a0, %a1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// type_c1
func.func @f(%a0: tensor<2xf32>) {
  // expected-error @below {{result 0 has element type 'f64' but must have 'f32'}}
  %r = omnibal.exp %a0 : (tensor<2xf32>) -> tensor<2xf64>
  return
}

// -----

// elementwise_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2xf32>) {
  // expected-error @below {{cannot broadcast [2, 3] and [2]}}
  %r = omnibal.add %a0, %a1 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

// elementwise_c2
func.func @f(%a0: tensor<2xf32>, %a1: tensor<2xf64>) {
  // expected-error @below {{operands have different element types: 'f32' and 'f64'}}
  %r = omnibal.add %a0, %a1 : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return
}

// -----

// elementwise_c3
func.func @f(%a0: tensor<2xi32>) {
  // expected-error @below {{needs floating operands, not 'i32'}}
  %r = omnibal.exp %a0 : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// random_uniform_c1
func.func @f(%a0: tensor<2xi32>, %a1: tensor<i32>) {
  // expected-error @below {{makes floating numbers, not 'i32'}}
  %r = omnibal.random_uniform %a0, %a0, %a1 {stream = 0 : i32} : (tensor<2xi32>, tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return
}

// -----

// dropout_c1
func.func @f(%a0: tensor<2xf32>) {
  // expected-error @below {{has a ratio of 1.000000e+00, which must be above 0 and below 1}}
  %r = omnibal.dropout %a0 {ratio = 1.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// dropout_c1
func.func @f(%a0: tensor<2xf32>) {
  // expected-error @below {{has a ratio of 0.000000e+00, which must be above 0 and below 1}}
  %r = omnibal.dropout %a0 {ratio = 0.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// elementwise_c4
func.func @f(%a0: tensor<2xf32>, %a1: tensor<2xf32>) {
  // expected-error @below {{needs boolean or integer operands, not 'f32'}}
  %r = omnibal.and %a0, %a1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// select_c1
func.func @f(%a0: tensor<2xi32>, %a1: tensor<2xf32>, %a2: tensor<2xf32>) {
  // expected-error @below {{condition must have element type i1}}
  %r = omnibal.select %a0, %a1, %a2 : (tensor<2xi32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// reshape_c1
func.func @f(%a0: tensor<2x3xf32>) {
  %s = omnibal.constant dense<[2, 3, 0]> : tensor<3xi64>
  // expected-error @below {{copies dimension 2 of an input of rank 2}}
  %r = omnibal.reshape %a0, %s : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<2x3x1xf32>
  return
}

// -----

// reshape_c2
func.func @f(%a0: tensor<2x3xf32>) {
  %s = omnibal.constant dense<[-1, -1]> : tensor<2xi64>
  // expected-error @below {{has more than one -1}}
  %r = omnibal.reshape %a0, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  return
}

// -----

// reshape_c3
func.func @f(%a0: tensor<2x3xf32>) {
  %s = omnibal.constant dense<[4, -1]> : tensor<2xi64>
  // expected-error @below {{cannot divide [2, 3] by [4]}}
  %r = omnibal.reshape %a0, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<4x1xf32>
  return
}

// -----

// reshape_c4
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{changes the number of elements: [2, 3] to [2, 4]}}
  %r = omnibal.reshape %a0 : (tensor<2x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// squeeze_c1
func.func @f(%a0: tensor<2x3xf32>) {
  %s = omnibal.constant dense<[0]> : tensor<1xi64>
  // expected-error @below {{drops dimension 0 of size 2}}
  %r = omnibal.squeeze %a0, %s : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<3xf32>
  return
}

// -----

// transpose_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{permutation is not one of rank 2}}
  %r = omnibal.transpose %a0 {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

// expand_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{cannot broadcast [2, 3] to [4, 3]}}
  %r = omnibal.expand %a0 : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// slice_c1
func.func @f(%a0: tensor<4x5xf32>) {
  // expected-error @below {{needs one begin and one step for each of 2 axes}}
  %r = omnibal.slice %a0 {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 1>} : (tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

// slice_c2
func.func @f(%a0: tensor<4xf32>) {
  // expected-error @below {{needs begin >= 0 and step != 0 on axis 0}}
  %r = omnibal.slice %a0 {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 1>, step = array<i64: 0>} : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

// slice_c3
#N = affine_map<(d0, d1) -> (d1)>
func.func @f(%x: tensor<?xf32, #N>) {
  %z = omnibal.constant dense<[0]> : tensor<1xi64>
  %e = omnibal.constant dense<[5]> : tensor<1xi64>
  // expected-error @below {{has a bound 5 that is within N elements for some micro-batches only}}
  %r = omnibal.slice %x, %z, %e {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<?xf32, #N>, tensor<1xi64>, tensor<1xi64>) -> tensor<5xf32>
  return
}

// -----

// slice_c4
func.func @f(%a0: tensor<4xf32>) {
  // expected-error @below {{reads outside axis 0 of size 4}}
  %r = omnibal.slice %a0 {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 2>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

// slice_c5
#N = affine_map<(d0, d1) -> (d1)>
func.func @f(%x: tensor<?xf32, #N>) {
  %z = omnibal.constant dense<[0]> : tensor<1xi64>
  %e = omnibal.constant dense<[9223372036854775807]> : tensor<1xi64>
  %s = omnibal.constant dense<[2]> : tensor<1xi64>
  // expected-error @below {{takes every 2th of N elements, which is not affine}}
  %r = omnibal.slice %x, %z, %e, %z, %s {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?xf32, #N>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32, #N>
  return
}

// -----

// concat_c1
func.func @f() {
  // expected-error @below {{needs at least one input}}
  %r = "omnibal.concat"() {axis = 0 : i64} : () -> tensor<0xf32>
  return
}

// -----

// concat_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) {
  // expected-error @below {{cannot join [2, 3] and [2, 4] along axis 0}}
  %r = omnibal.concat %a0, %a1 {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

// concat_c3
func.func @f(%a0: tensor<2xf32>, %a1: tensor<2xf64>) {
  // expected-error @below {{inputs have different element types}}
  %r = omnibal.concat %a0, %a1 {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf64>) -> tensor<4xf32>
  return
}

// -----

// pad_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{needs one low (and step) an axis}}
  %r = omnibal.pad %a0 {low = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// pad_c2
func.func @f(%a0: tensor<2xf32>) {
  // expected-error @below {{needs low >= 0 and step != 0 on axis 0}}
  %r = omnibal.pad %a0 {low = array<i64: -1>} : (tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// pad_c3
func.func @f(%a0: tensor<2xf32>) {
  // expected-error @below {{result axis 0 of size 3 is too short}}
  %r = omnibal.pad %a0 {low = array<i64: 2>} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// tile_c1
func.func @f(%a0: tensor<2x3xf32>) {
  %s = omnibal.constant dense<[2]> : tensor<1xi64>
  // expected-error @below {{needs one repeat for each of 2 axes}}
  %r = omnibal.tile %a0, %s : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  return
}

// -----

// range_c1
func.func @f(%a0: tensor<i64>, %a1: tensor<i32>, %a2: tensor<i64>) {
  // expected-error @below {{operands have different element types}}
  %r = omnibal.range %a0, %a1, %a2 : (tensor<i64>, tensor<i32>, tensor<i64>) -> tensor<3xi64>
  return
}

// -----

// range_c2
func.func @f() {
  %s = omnibal.constant dense<0> : tensor<i64>
  %l = omnibal.constant dense<[3, 3]> : tensor<2xi64>
  %d = omnibal.constant dense<1> : tensor<i64>
  // expected-error @below {{'limit' must be one number}}
  %r = omnibal.range %s, %l, %d : (tensor<i64>, tensor<2xi64>, tensor<i64>) -> tensor<3xi64>
  return
}

// -----

// range_c3
func.func @f() {
  %s = omnibal.constant dense<0> : tensor<i64>
  %l = omnibal.constant dense<3> : tensor<i64>
  %d = omnibal.constant dense<0> : tensor<i64>
  // expected-error @below {{'delta' must be a constant other than 0}}
  %r = omnibal.range %s, %l, %d : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<3xi64>
  return
}

// -----

// gather_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<1xi64>) {
  // expected-error @below {{axis 2 is out of range for rank 2}}
  %r = omnibal.gather %a0, %a1 {axis = 2 : i64} : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<2x3xf32>
  return
}

// -----

// gather_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<1xi64>) {
  // expected-error @below {{has a row of padding, but gathers along another axis}}
  %r = omnibal.gather %a0, %a1 {axis = 1 : i64, padding = 1 : i64} : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  return
}

// -----

// gather_nd_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<1x3xi64>) {
  // expected-error @below {{indices [1, 3] with batch_dims 0 do not address an input [2, 3]}}
  %r = omnibal.gather_nd %a0, %a1 {batch_dims = 0 : i64} : (tensor<2x3xf32>, tensor<1x3xi64>) -> tensor<1xf32>
  return
}

// -----

// gather_nd_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<3x1xi64>) {
  // expected-error @below {{batch dimension 0 differs: 2 and 3}}
  %r = omnibal.gather_nd %a0, %a1 {batch_dims = 1 : i64} : (tensor<2x3xf32>, tensor<3x1xi64>) -> tensor<3xf32>
  return
}

// -----

// gather_elements_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2x3xi64>) {
  // expected-error @below {{axis 2 is out of range for rank 2}}
  %r = omnibal.gather_elements %a0, %a1 {axis = 2 : i64} : (tensor<2x3xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return
}

// -----

// gather_elements_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2xi64>) {
  // expected-error @below {{input and indices must have equal rank}}
  %r = omnibal.gather_elements %a0, %a1 {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

// scatter_nd_c1
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x1xi64>, %a2: tensor<2x4xf32>) {
  // expected-error @below {{updates [2, 4] do not fit indices [2, 1] into [4, 3]}}
  %r = omnibal.scatter_nd %a0, %a1, %a2 {reduction = "add"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

// scatter_nd_c2
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x1xi64>, %a2: tensor<2x3xf32>) {
  // expected-error @below {{has unknown reduction 'sum'}}
  %r = omnibal.scatter_nd %a0, %a1, %a2 {reduction = "sum"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// scatter_nd_c3
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x1xi64>, %a2: tensor<2x3xf64>) {
  // expected-error @below {{updates and input have different element types}}
  %r = omnibal.scatter_nd %a0, %a1, %a2 {reduction = "add"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf64>) -> tensor<4x3xf32>
  return
}

// -----

// scatter_elements_c1
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x3xi64>, %a2: tensor<2x2xf32>) {
  // expected-error @below {{must have one shape of the input's rank}}
  %r = omnibal.scatter_elements %a0, %a1, %a2 {axis = 0 : i64, reduction = "add"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x2xf32>) -> tensor<4x3xf32>
  return
}

// -----

// scatter_elements_c2
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x3xi64>, %a2: tensor<2x3xf32>) {
  // expected-error @below {{has unknown reduction 'mean'}}
  %r = omnibal.scatter_elements %a0, %a1, %a2 {axis = 0 : i64, reduction = "mean"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// scatter_elements_c3
func.func @f(%a0: tensor<4x3xf32>, %a1: tensor<2x3xi64>, %a2: tensor<2x3xf64>) {
  // expected-error @below {{updates and input have different element types}}
  %r = omnibal.scatter_elements %a0, %a1, %a2 {axis = 0 : i64, reduction = "add"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf64>) -> tensor<4x3xf32>
  return
}

// -----

// trilu_c1
func.func @f(%a0: tensor<4xf32>) {
  // expected-error @below {{needs an input of rank 2 or more}}
  %r = omnibal.trilu %a0 {upper = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{names an axis twice}}
  %r = omnibal.reduce %a0 {kind = 0 : i32, axes = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

// cumsum_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{needs an axis, as operand or attribute}}
  %r = omnibal.cumsum %a0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// cumsum_c2
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{axis 2 is out of range for rank 2}}
  %r = omnibal.cumsum %a0 {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// softmax_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{axis 2 is out of range for rank 2}}
  %r = omnibal.softmax %a0 {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// log_softmax_c1
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{axis -3 is out of range for rank 2}}
  %r = omnibal.log_softmax %a0 {axis = -3 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// layer_norm_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4xf32>) {
  // expected-error @below {{scale or bias [4] does not broadcast to the input [2, 3]}}
  %r = omnibal.layer_norm %a0, %a1 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

// rms_norm_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>) {
  // expected-error @below {{epsilon must not be negative}}
  %r = omnibal.rms_norm %a0, %a1 {axis = 1 : i64, epsilon = -1.0 : f64} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// matmul_c1
func.func @f(%a0: tensor<3xf32>, %a1: tensor<3xf32>) {
  // expected-error @below {{cannot transpose a vector}}
  %r = omnibal.matmul %a0, %a1 {transpose_lhs} : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  return
}

// -----

// matmul_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) {
  // expected-error @below {{cannot multiply [2, 3] and [2, 4]}}
  %r = omnibal.matmul %a0, %a1 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// matmul_c3
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<3x4xf64>) {
  // expected-error @below {{operands have different element types}}
  %r = omnibal.matmul %a0, %a1 : (tensor<2x3xf32>, tensor<3x4xf64>) -> tensor<2x4xf32>
  return
}

// -----

// linear_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4xf32>) {
  // expected-error @below {{needs an input of rank 1 or more and a weight of rank 2}}
  %r = omnibal.linear %a0, %a1 : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// linear_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x5xf32>) {
  // expected-error @below {{input [2, 3] does not fit weight [4, 5]}}
  %r = omnibal.linear %a0, %a1 : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x4xf32>
  return
}

// -----

// linear_c3
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x3xf32>, %a2: tensor<3xf32>) {
  // expected-error @below {{bias must be [4], not [3]}}
  %r = omnibal.linear %a0, %a1, %a2 : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// linear_weight_grad_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x5xf32>) {
  // expected-error @below {{must agree in all but the last dimension}}
  %r = omnibal.linear_weight_grad %a0, %a1 : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<5x3xf32>
  return
}

// -----

// row_squares_c1
func.func @f(%a0: tensor<2x3x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<3x2xf32>) {
  // expected-error @below {{needs a weight of rank 2}}
  %r = omnibal.row_squares %a0, %a1, %a2 {scale = 1.0 : f64} : (tensor<2x3x4xf32>, tensor<2x4xf32>, tensor<3x2xf32>) -> tensor<3xf32>
  return
}

// -----

// row_squares_c2
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<3x1xf32>) {
  // expected-error @below {{weight [3, 4] needs [rank, 4] and [3, rank], not [2, 4] and [3, 1]}}
  %r = omnibal.row_squares %a0, %a1, %a2 {scale = 1.0 : f64} : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<3x1xf32>) -> tensor<3xf32>
  return
}

// -----

// row_squares_c3
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<3x2xf32>) {
  // expected-error @below {{needs a scale that is a finite number}}
  %r = omnibal.row_squares %a0, %a1, %a2 {scale = 0x7FF0000000000000 : f64} : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<3x2xf32>) -> tensor<3xf32>
  return
}

// -----

// conv_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x3xf32>) {
  // expected-error @below {{needs a batch, a channel and at least one spatial dimension}}
  %r = omnibal.conv %a0, %a1 {strides = array<i64>, pads = array<i64>, dilations = array<i64>, group = 1 : i64} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// conv_c2
func.func @f(%a0: tensor<1x3x8xf32>, %a1: tensor<4x3x2xf32>) {
  // expected-error @below {{needs 1 strides and dilations and 2 pads}}
  %r = omnibal.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<4x3x2xf32>) -> tensor<1x4x7xf32>
  return
}

// -----

// conv_c3
func.func @f(%a0: tensor<1x3x8xf32>, %a1: tensor<4x3x2xf32>) {
  // expected-error @below {{needs strides and dilations >= 1 and pads >= 0}}
  %r = omnibal.conv %a0, %a1 {strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<4x3x2xf32>) -> tensor<1x4x7xf32>
  return
}

// -----

// conv_c4
func.func @f(%a0: tensor<1x3x8xf32>, %a1: tensor<4x2x2xf32>) {
  // expected-error @below {{weight [4, 2, 2] with 1 groups does not fit input [1, 3, 8]}}
  %r = omnibal.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<4x2x2xf32>) -> tensor<1x4x7xf32>
  return
}

// -----

// conv_c5
func.func @f(%a0: tensor<1x3x2xf32>, %a1: tensor<4x3x5xf32>) {
  // expected-error @below {{kernel is larger than the padded input on spatial axis 0}}
  %r = omnibal.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x2xf32>, tensor<4x3x5xf32>) -> tensor<1x4x1xf32>
  return
}

// -----

// conv_c6
func.func @f(%a0: tensor<1x3x8xf32>, %a1: tensor<4x3x2xf32>, %a2: tensor<3xf32>) {
  // expected-error @below {{bias must be [4]}}
  %r = omnibal.conv %a0, %a1, %a2 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<4x3x2xf32>, tensor<3xf32>) -> tensor<1x4x7xf32>
  return
}

// -----

// conv_input_grad_c1
func.func @f(%a0: tensor<1x4x6xf32>, %a1: tensor<4x3x2xf32>) {
  // expected-error @below {{gradient [1, 4, 6] is not of the output's shape [1, 4, 7]}}
  %r = omnibal.conv_input_grad %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x4x6xf32>, tensor<4x3x2xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

// conv_weight_grad_c1
func.func @f(%a0: tensor<1x3x8xf32>, %a1: tensor<1x4x6xf32>) {
  // expected-error @below {{gradient [1, 4, 6] is not of the output's shape [1, 4, 7]}}
  %r = omnibal.conv_weight_grad %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<1x4x6xf32>) -> tensor<4x3x2xf32>
  return
}

// -----

// attention_c1
func.func @f(%a0: tensor<4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>) {
  // expected-error @below {{needs query, key and value of rank 4}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c2
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x5x3xf32>) {
  // expected-error @below {{do not fit together}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x5x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c3
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x3x6x4xf32>, %a2: tensor<1x3x6x3xf32>) {
  // expected-error @below {{has 4 query heads, no multiple of 3 key heads}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x3x6x4xf32>, tensor<1x3x6x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c4
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>) {
  // expected-error @below {{needs a window >= 1 with mask kinds sliding and chunked, may have one with blocks and prefix, and only then}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 3 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c5
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>) {
  // expected-error @below {{needs token types with mask kinds prefix and blocks, and only then}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 4 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c6
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x5x4xf32>, %a2: tensor<1x2x5x3xf32>) {
  // expected-error @below {{has 6 queries and 5 keys; its mask kind needs as many}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c7
func.func @f(%a0: tensor<2x4x6x4xf32>, %a1: tensor<2x2x6x4xf32>, %a2: tensor<2x2x6x3xf32>, %a3: tensor<7xi32>) {
  // expected-error @below {{with cu_seqlens needs batch size 1}}
  %r:2 = omnibal.attention %a0, %a1, %a2, %a3 {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<2x4x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x3xf32>, tensor<7xi32>) -> (tensor<2x4x6x3xf32>, tensor<2x4x6xf32>)
  return
}

// -----

// attention_c8
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>) {
  // expected-error @below {{needs a mask operand with mask kind explicit, and only then}}
  %r:2 = omnibal.attention %a0, %a1, %a2 {scale = 0.5 : f64, mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c9
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<5xi1>) {
  // expected-error @below {{mask [5] does not broadcast to [1, 4, 6, 6]}}
  %r:2 = omnibal.attention %a0, %a1, %a2, %a3 {scale = 0.5 : f64, mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>, tensor<5xi1>) -> (tensor<1x4x6x3xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c10
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %types: tensor<6xi32>) {
  // expected-error @below {{needs a type_range [first, last] with mask kind blocks}}
  %r:2 = omnibal.attention %a0, %a1, %a1, %types {scale = 0.5 : f64, mask_kind = 5 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<6xi32>) -> (tensor<1x4x6x4xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_c11
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %sinks: tensor<2xf32>) {
  // expected-error @below {{sinks must be [4], one a query head}}
  %r:2 = omnibal.attention %a0, %a1, %a1, %sinks {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<2xf32>) -> (tensor<1x4x6x4xf32>, tensor<1x4x6xf32>)
  return
}

// -----

// attention_grad_c1
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<1x4x6x3xf32>, %a4: tensor<1x4x6xf32>, %a5: tensor<1x4x6x4xf32>) {
  // expected-error @below {{result, lse and gradient are not of the attention's shapes}}
  %r:3 = omnibal.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>, tensor<1x4x6x3xf32>, tensor<1x4x6xf32>, tensor<1x4x6x4xf32>) -> (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>)
  return
}

// -----

// attention_grad_c2
func.func @f(%a0: tensor<1x4x6x4xf32>, %a1: tensor<1x2x6x4xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<1x4x6x3xf32>, %a4: tensor<1x4x6xf32>, %a5: tensor<1x4x6x3xf32>) {
  // expected-error @below {{has no explicit mask}}
  %r:3 = omnibal.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 0.5 : f64, mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>, tensor<1x4x6x3xf32>, tensor<1x4x6xf32>, tensor<1x4x6x3xf32>) -> (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>)
  return
}

// -----

// gated_delta_c1
func.func @f(%q: tensor<2x6x4xf32>, %v: tensor<1x2x6x3xf32>, %g: tensor<1x2x6xf32>) {
  // expected-error @below {{needs query, key and value of rank 4}}
  %r = omnibal.gated_delta %q, %q, %v, %g, %g {scale = 0.5 : f64} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>) -> tensor<1x2x6x3xf32>
  return
}

// -----

// gated_delta_c2
func.func @f(%q: tensor<1x2x6x4xf32>, %v: tensor<1x2x6x3xf32>, %g: tensor<1x2x5xf32>) {
  // expected-error @below {{decay [1, 2, 5] and beta [1, 2, 5] do not fit together}}
  %r = omnibal.gated_delta %q, %q, %v, %g, %g {scale = 0.5 : f64} : (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32>, tensor<1x2x5xf32>, tensor<1x2x5xf32>) -> tensor<1x2x6x3xf32>
  return
}

// -----

// gated_delta_c3
func.func @f(%q: tensor<2x2x6x4xf32>, %g: tensor<2x2x6xf32>, %c: tensor<7xi32>) {
  // expected-error @below {{with cu_seqlens needs batch size 1}}
  %r = omnibal.gated_delta %q, %q, %q, %g, %g, %c {scale = 0.5 : f64} : (tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<7xi32>) -> tensor<2x2x6x4xf32>
  return
}

// -----

// gated_delta_grad_c1
func.func @f(%q: tensor<1x2x6x4xf32>, %g: tensor<1x2x6xf32>, %dy: tensor<1x2x6x3xf32>) {
  // expected-error @below {{gradient must be [1, 2, 6, 4], not [1, 2, 6, 3]}}
  %r:5 = omnibal.gated_delta_grad %q, %q, %q, %g, %g, %dy {scale = 0.5 : f64} : (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6x3xf32>) -> (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>)
  return
}

// -----

// rope_c1
func.func @f(%a0: tensor<1x2x6x4xf32>, %a1: tensor<6xi32>, %a2: tensor<9x4xf32>, %a3: tensor<9x2xf32>) {
  // expected-error @below {{cos and sin of one shape}}
  %r = omnibal.rope %a0, %a1, %a2, %a3 : (tensor<1x2x6x4xf32>, tensor<6xi32>, tensor<9x4xf32>, tensor<9x2xf32>) -> tensor<1x2x6x4xf32>
  return
}

// -----

// rope_c2
func.func @f(%a0: tensor<1x2x6x4xf32>, %a1: tensor<6xi32>, %a2: tensor<9x6xf32>, %a3: tensor<9x6xf32>) {
  // expected-error @below {{turns 6 of 4 features}}
  %r = omnibal.rope %a0, %a1, %a2, %a3 : (tensor<1x2x6x4xf32>, tensor<6xi32>, tensor<9x6xf32>, tensor<9x6xf32>) -> tensor<1x2x6x4xf32>
  return
}

// -----

// rope_c3
func.func @f(%a0: tensor<1x2x6x4xf32>, %a1: tensor<5xi32>, %a2: tensor<9x4xf32>, %a3: tensor<9x4xf32>) {
  // expected-error @below {{has [5] positions for 6 rows}}
  %r = omnibal.rope %a0, %a1, %a2, %a3 : (tensor<1x2x6x4xf32>, tensor<5xi32>, tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<1x2x6x4xf32>
  return
}

// -----

// embedding_c1
func.func @f(%a0: tensor<9xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{needs a table of rank 2}}
  %r = omnibal.embedding %a0, %a1 : (tensor<9xf32>, tensor<5xi32>) -> tensor<5xf32>
  return
}

// -----

// embedding_grad_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{needs a result type [rows, size] of known size}}
  %r = omnibal.embedding_grad %a0, %a1 : (tensor<5x3xf32>, tensor<5xi32>) -> tensor<9xf32>
  return
}

// -----

// embedding_grad_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<4xi32>) {
  // expected-error @below {{gradient must be [4, 3], not [5, 3]}}
  %r = omnibal.embedding_grad %a0, %a1 : (tensor<5x3xf32>, tensor<4xi32>) -> tensor<9x3xf32>
  return
}

// -----

// shift_tokens_c1
func.func @f(%a0: tensor<2x5x3xf32>, %a1: tensor<10xi32>) {
  // expected-error @below {{needs an input [1, N, C], not [2, 5, 3]}}
  %r = omnibal.shift_tokens %a0, %a1 {distance = 1 : i64} : (tensor<2x5x3xf32>, tensor<10xi32>) -> tensor<2x5x3xf32>
  return
}

// -----

// shift_tokens_c2
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<4xi32>) {
  // expected-error @below {{has [4] positions for 5 rows}}
  %r = omnibal.shift_tokens %a0, %a1 {distance = 1 : i64} : (tensor<1x5x3xf32>, tensor<4xi32>) -> tensor<1x5x3xf32>
  return
}

// -----

// shift_tokens_c3
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{needs a distance >= 0}}
  %r = omnibal.shift_tokens %a0, %a1 {distance = -1 : i64} : (tensor<1x5x3xf32>, tensor<5xi32>) -> tensor<1x5x3xf32>
  return
}

// -----

// image_merge_c1
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<2x4xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{cannot merge features [2, 4] into text [1, 5, 3]}}
  %r = omnibal.image_merge %a0, %a1, %a2 : (tensor<1x5x3xf32>, tensor<2x4xf32>, tensor<5xi32>) -> tensor<1x5x3xf32>
  return
}

// -----

// image_merge_c2
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<4xi32>) {
  // expected-error @below {{has [4] image rows for 5 tokens}}
  %r = omnibal.image_merge %a0, %a1, %a2 : (tensor<1x5x3xf32>, tensor<2x3xf32>, tensor<4xi32>) -> tensor<1x5x3xf32>
  return
}

// -----

// image_merge_grad_c1
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{needs a gradient [1, N, C] and a type [.., C] for the features}}
  %r:2 = omnibal.image_merge_grad %a0, %a1 : (tensor<1x5x3xf32>, tensor<5xi32>) -> (tensor<1x5x3xf32>, tensor<2x4xf32>)
  return
}

// -----

// image_merge_grad_c2
func.func @f(%a0: tensor<1x5x3xf32>, %a1: tensor<4xi32>) {
  // expected-error @below {{has [4] image rows for 5 tokens}}
  %r:2 = omnibal.image_merge_grad %a0, %a1 : (tensor<1x5x3xf32>, tensor<4xi32>) -> (tensor<1x5x3xf32>, tensor<2x3xf32>)
  return
}

// -----

// cross_entropy_c1
func.func @f(%a0: tensor<5x7xf32>, %a1: tensor<4xi32>) {
  // expected-error @below {{has [4] targets for [5] rows}}
  %r = omnibal.cross_entropy %a0, %a1 : (tensor<5x7xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}

// -----

// cross_entropy_grad_c1
func.func @f(%a0: tensor<5x7xf32>, %a1: tensor<4xi32>) {
  // expected-error @below {{has [4] targets for [5] rows}}
  %r:2 = omnibal.cross_entropy_grad %a0, %a1 : (tensor<5x7xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<5x7xf32>)
  return
}

// -----

// cross_entropy_c2
func.func @f(%a0: tensor<5x7xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{smoothing is 1.0}}
  %r = omnibal.cross_entropy %a0, %a1 {smoothing = 1.0 : f64} : (tensor<5x7xf32>, tensor<5xi32>) -> tensor<5xf32>
  return
}

// -----

// cross_entropy_grad_c2
func.func @f(%a0: tensor<5x7xf32>, %a1: tensor<5xi32>) {
  // expected-error @below {{it must be a finite number of at least 0}}
  %r:2 = omnibal.cross_entropy_grad %a0, %a1 {z = -1.0 : f64} : (tensor<5x7xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5x7xf32>)
  return
}

// -----

// linear_cross_entropy_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{it must be in [0, 1)}}
  %r = omnibal.linear_cross_entropy %a0, %a1, %a2 {smoothing = -0.5 : f64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>) -> tensor<5xf32>
  return
}

// -----

// linear_cross_entropy_grad_c3
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{it must be a finite number of at least 0}}
  %r:3 = omnibal.linear_cross_entropy_grad %a0, %a1, %a2 {z = 0x7FF0000000000000 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// linear_cross_entropy_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x4xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{weight [7, 4] does not fit hidden states [5, 3]}}
  %r = omnibal.linear_cross_entropy %a0, %a1, %a2 : (tensor<5x3xf32>, tensor<7x4xf32>, tensor<5xi32>) -> tensor<5xf32>
  return
}

// -----

// linear_cross_entropy_grad_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<6xf32>, %a3: tensor<5xi32>) {
  // expected-error @below {{bias must be [7]}}
  %r:3 = omnibal.linear_cross_entropy_grad %a0, %a1, %a2, %a3 {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<6xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// linear_cross_entropy_grad_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{has a bias gradient but no bias}}
  %r:4 = omnibal.linear_cross_entropy_grad %a0, %a1, %a2 {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5x3xf32>, tensor<7x3xf32>, tensor<7xf32>)
  return
}

// -----

// linear_cross_entropy_grad_c4
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<6xf32>) {
  // expected-error @below {{has row_weights [6] for targets [5]}}
  %r:3 = omnibal.linear_cross_entropy_grad %a0, %a1, %a2, %a3 {operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<6xf32>) -> (tensor<5xf32>, tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// word_statistics_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x4xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{weight [7, 4] does not fit hidden states [5, 3]}}
  %r:2 = omnibal.word_statistics %a0, %a1, %a2 {first = 0 : i64, words = 7 : i64} : (tensor<5x3xf32>, tensor<7x4xf32>, tensor<5xi32>) -> (tensor<1x5x3xf32>, tensor<1x5xi32>)
  return
}

// -----

// word_statistics_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>) {
  // expected-error @below {{has a weight [7, 3] of the words from 3 on, of 9}}
  %r:2 = omnibal.word_statistics %a0, %a1, %a2 {first = 3 : i64, words = 9 : i64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>) -> (tensor<1x5x3xf32>, tensor<1x5xi32>)
  return
}

// -----

// joined_cross_entropy_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<4xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{has [4] targets for [5] rows}}
  %r = omnibal.joined_cross_entropy %a0, %a1, %a2, %a3 {first = 0 : i64, words = 9 : i64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<4xi32>, tensor<2x5x3xf32>) -> tensor<4xf32>
  return
}

// -----

// joined_cross_entropy_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{has statistics [2, 5, 3] for targets [5]; a part states [5, 4]}}
  %r = omnibal.joined_cross_entropy %a0, %a1, %a2, %a3 {smoothing = 0.1 : f64, first = 0 : i64, words = 9 : i64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> tensor<5xf32>
  return
}

// -----

// joined_cross_entropy_c3
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{smoothing is 1.0}}
  %r = omnibal.joined_cross_entropy %a0, %a1, %a2, %a3 {smoothing = 1.0 : f64, first = 0 : i64, words = 9 : i64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> tensor<5xf32>
  return
}

// -----

// joined_cross_entropy_c4
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{of the words from -1 on, of 9}}
  %r = omnibal.joined_cross_entropy %a0, %a1, %a2, %a3 {first = -1 : i64, words = 9 : i64} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> tensor<5xf32>
  return
}

// -----

// joined_cross_entropy_grad_c1
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<4xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{has [4] targets for [5] rows}}
  %r:2 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3 {first = 0 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<4xi32>, tensor<2x5x3xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// joined_cross_entropy_grad_c2
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x4xf32>) {
  // expected-error @below {{has statistics [2, 5, 4] for targets [5]; a part states [5, 3]}}
  %r:2 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3 {first = 0 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x4xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// joined_cross_entropy_grad_c3
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{it must be a finite number of at least 0}}
  %r:2 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3 {z = -1.0 : f64, first = 0 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// joined_cross_entropy_grad_c4
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{of the words from 3 on, of 9}}
  %r:2 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3 {first = 3 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// joined_cross_entropy_grad_c5
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>) {
  // expected-error @below {{has a bias gradient but no bias}}
  %r:3 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3 {first = 0 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>, tensor<7xf32>)
  return
}

// -----

// joined_cross_entropy_grad_c6
func.func @f(%a0: tensor<5x3xf32>, %a1: tensor<7x3xf32>, %a2: tensor<5xi32>, %a3: tensor<2x5x3xf32>, %a4: tensor<6xf32>) {
  // expected-error @below {{has row_weights [6] for targets [5]}}
  %r:2 = omnibal.joined_cross_entropy_grad %a0, %a1, %a2, %a3, %a4 {first = 0 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1>} : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<5xi32>, tensor<2x5x3xf32>, tensor<6xf32>) -> (tensor<5x3xf32>, tensor<7x3xf32>)
  return
}

// -----

// joined_prediction_c1
func.func @f(%a0: tensor<2x5x3xf32>, %a1: tensor<3x5xi32>, %a2: tensor<5xi32>) {
  // expected-error @below {{has statistics [2, 5, 3] and predictions [3, 5] for targets [5]}}
  %r = omnibal.joined_prediction %a0, %a1, %a2 : (tensor<2x5x3xf32>, tensor<3x5xi32>, tensor<5xi32>) -> tensor<5xi32>
  return
}

// -----

// preference_loss_c1
func.func @f(%a0: tensor<5xf32>, %a1: tensor<6xi32>, %a2: tensor<4xf32>) {
  // expected-error @below {{they must be lists, and losses as long as references}}
  %r:4 = omnibal.preference_loss %a0, %a1, %a2 {beta = 0.1 : f64} : (tensor<5xf32>, tensor<6xi32>, tensor<4xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>)
  return
}

// -----

// preference_loss_c2
func.func @f(%a0: tensor<5xf32>, %a1: tensor<6xi32>, %a2: tensor<5xf32>) {
  // expected-error @below {{beta is 0.0}}
  %r:4 = omnibal.preference_loss %a0, %a1, %a2 {beta = 0.0 : f64} : (tensor<5xf32>, tensor<6xi32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>)
  return
}

// -----

// preference_loss_grad_c1
func.func @f(%a0: tensor<1x5xf32>, %a1: tensor<6xi32>) {
  // expected-error @below {{has losses [1, 5]}}
  %r = omnibal.preference_loss_grad %a0, %a1, %a0 {beta = 0.1 : f64} : (tensor<1x5xf32>, tensor<6xi32>, tensor<1x5xf32>) -> tensor<1x5xf32>
  return
}

// -----

// preference_loss_grad_c2
func.func @f(%a0: tensor<5xf32>, %a1: tensor<6xi32>, %a2: tensor<5xf32>) {
  // expected-error @below {{it must be in [0, 0.5)}}
  %r = omnibal.preference_loss_grad %a0, %a1, %a2 {beta = 0.1 : f64, smoothing = 0.5 : f64} : (tensor<5xf32>, tensor<6xi32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

// preference_loss_grad_c3
func.func @f(%a0: tensor<5xf32>, %a1: tensor<6xi32>, %a2: tensor<4xf32>) {
  // expected-error @below {{has a gradient [4] of losses [5]}}
  %r = omnibal.preference_loss_grad %a0, %a1, %a0, %a2 {beta = 0.1 : f64} : (tensor<5xf32>, tensor<6xi32>, tensor<5xf32>, tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// parameter_c1
// expected-error @below {{needs 'file', 'offset' and 'length' together, and not with 'value'}}
omnibal.parameter @a : tensor<2xf32> {file = "a.bin"}

// -----

// parameter_c1
// expected-error @below {{has a value of type 'tensor<3xf32>', not 'tensor<2xf32>'}}
omnibal.parameter @a : tensor<2xf32> {value = dense<1.0> : tensor<3xf32>}

// -----

// top_k_c1
func.func @f(%a0: tensor<f32>) {
  // expected-error @below {{needs a last dimension of constant size}}
  %r = omnibal.top_k %a0 {k = 1 : i64} : (tensor<f32>) -> tensor<1xi64>
  return
}

// -----

// top_k_c2
func.func @f(%a0: tensor<2x3xf32>) {
  // expected-error @below {{cannot take 4 of 3 values}}
  %r = omnibal.top_k %a0 {k = 4 : i64} : (tensor<2x3xf32>) -> tensor<2x4xi64>
  return
}

// -----

// group_rows_c1
func.func @f(%a0: tensor<?x?xi32, affine_map<(d0, d1) -> (d0, d1)>>) {
  // expected-error @below {{rows, which is not affine}}
  %r:2 = omnibal.group_rows %a0 {groups = 4 : i64} : (tensor<?x?xi32, affine_map<(d0, d1) -> (d0, d1)>>) -> (tensor<3xi32>, tensor<5xi32>)
  return
}

// -----

// group_rows_c2
func.func @f(%a0: tensor<3xi32>) {
  // expected-error @below {{needs at least one group}}
  %r:2 = omnibal.group_rows %a0 {groups = 0 : i64} : (tensor<3xi32>) -> (tensor<3xi32>, tensor<1xi32>)
  return
}

// -----

// grouped_linear_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x3xf32>, %a2: tensor<2xi32>, %a3: tensor<5xi32>) {
  // expected-error @below {{needs a weight of rank 3}}
  %r = omnibal.grouped_linear %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<2xi32>, tensor<5xi32>) -> tensor<2x4xf32>
  return
}

// -----

// grouped_linear_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x3x5xf32>, %a2: tensor<2xi32>, %a3: tensor<5xi32>) {
  // expected-error @below {{input [2, 3] does not fit weight [4, 3, 5]}}
  %r = omnibal.grouped_linear %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<4x3x5xf32>, tensor<2xi32>, tensor<5xi32>) -> tensor<2x3xf32>
  return
}

// -----

// grouped_linear_c3
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x5x3xf32>, %a2: tensor<3xi32>, %a3: tensor<5xi32>) {
  // expected-error @below {{has an order [3] for rows [2, 3]}}
  %r = omnibal.grouped_linear %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<4x5x3xf32>, tensor<3xi32>, tensor<5xi32>) -> tensor<2x5xf32>
  return
}

// -----

// grouped_linear_c3
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x5x3xf32>, %a2: tensor<2xi32>, %a3: tensor<4xi32>) {
  // expected-error @below {{has borders [4] for 4 groups}}
  %r = omnibal.grouped_linear %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<4x5x3xf32>, tensor<2xi32>, tensor<4xi32>) -> tensor<2x5xf32>
  return
}

// -----

// grouped_linear_weight_grad_c1
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<4x5xf32>, %a2: tensor<2xi32>, %a3: tensor<5xi32>) {
  // expected-error @below {{must agree in all but the last dimension}}
  %r = omnibal.grouped_linear_weight_grad %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<4x5xf32>, tensor<2xi32>, tensor<5xi32>) -> tensor<4x5x3xf32>
  return
}

// -----

// grouped_linear_weight_grad_c2
func.func @f(%a0: tensor<2x3xf32>, %a1: tensor<2x5xf32>, %a2: tensor<3xi32>, %a3: tensor<5xi32>) {
  // expected-error @below {{has an order [3] for rows [2, 3]}}
  %r = omnibal.grouped_linear_weight_grad %a0, %a1, %a2, %a3 : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<3xi32>, tensor<5xi32>) -> tensor<4x5x3xf32>
  return
}

// -----

// cross_attention_c1
func.func @f(%a0: tensor<4x5x3xf32>, %a1: tensor<1x2x6x3xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<5xi32>, %a4: tensor<5xi32>) {
  // expected-error @below {{needs query, key and value of rank 4}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_c2
func.func @f(%a0: tensor<1x4x5x3xf32>, %a1: tensor<1x2x6x3xf32>, %a2: tensor<1x2x7x3xf32>, %a3: tensor<5xi32>, %a4: tensor<5xi32>) {
  // expected-error @below {{query [1, 4, 5, 3], key [1, 2, 6, 3] and value [1, 2, 7, 3] do not fit together}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<1x4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x7x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_c2
func.func @f(%a0: tensor<2x4x5x3xf32>, %a1: tensor<2x2x6x3xf32>, %a2: tensor<2x2x6x3xf32>, %a3: tensor<5xi32>, %a4: tensor<5xi32>) {
  // expected-error @below {{do not fit together}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<2x4x5x3xf32>, tensor<2x2x6x3xf32>, tensor<2x2x6x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_c3
func.func @f(%a0: tensor<1x4x5x3xf32>, %a1: tensor<1x3x6x3xf32>, %a2: tensor<1x3x6x3xf32>, %a3: tensor<5xi32>, %a4: tensor<5xi32>) {
  // expected-error @below {{has 4 query heads, no multiple of 3 key heads}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<1x4x5x3xf32>, tensor<1x3x6x3xf32>, tensor<1x3x6x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_c4
func.func @f(%a0: tensor<1x4x5x3xf32>, %a1: tensor<1x2x6x3xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<4xi32>, %a4: tensor<4xi32>) {
  // expected-error @below {{needs the first and the last picture of 5 queries, not [4] and [4]}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<1x4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6x3xf32>, tensor<4xi32>, tensor<4xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_c5
func.func @f(%a0: tensor<1x4x5x3xf32>, %a1: tensor<1x2x6x3xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<5xi32>, %a4: tensor<5xi32>) {
  // expected-error @below {{needs rows >= 1}}
  %r:2 = omnibal.cross_attention %a0, %a1, %a2, %a3, %a4 {scale = 1.0 : f64, rows = 0 : i64} : (tensor<1x4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x4x5xf32>)
  return
}

// -----

// cross_attention_grad_c1
func.func @f(%a0: tensor<1x4x5x3xf32>, %a1: tensor<1x2x6x3xf32>, %a2: tensor<1x2x6x3xf32>, %a3: tensor<1x4x5x3xf32>, %a4: tensor<1x5x4xf32>, %a5: tensor<5xi32>) {
  // expected-error @below {{result, lse and gradient are not of the attention's shapes}}
  %r:3 = omnibal.cross_attention_grad %a0, %a1, %a2, %a3, %a4, %a3, %a5, %a5 {scale = 1.0 : f64, rows = 2 : i64} : (tensor<1x4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6x3xf32>, tensor<1x4x5x3xf32>, tensor<1x5x4xf32>, tensor<1x4x5x3xf32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<1x4x5x3xf32>, tensor<1x2x6x3xf32>, tensor<1x2x6x3xf32>)
  return
}

// -----

// reshard_c1
func.func @f(%x: tensor<2x7xf32>) {
  // expected-error @below {{moves [2, 7] to [2, 24], but none of 2 parts holds these of [2, 24]}}
  %y = omnibal.reshard %x from <split(1 : 8 x 3)> to <copied> parts 2 of tensor<2x24xf32> : (tensor<2x7xf32>) -> tensor<2x24xf32>
  return
}

// -----

// reshard_c1
func.func @f(%x: tensor<2x12xf32>) {
  // expected-error @below {{cannot split [2, 24] as #plan.layout<split(1 : 5)>}}
  %y = omnibal.reshard %x from <split(1 : 5)> to <copied> parts 2 of tensor<2x24xf32> : (tensor<2x12xf32>) -> tensor<2x24xf32>
  return
}

// -----

// reshard_c1
func.func @f(%x: tensor<?xf32, affine_map<(d0, d1) -> (d1)>>) {
  // expected-error @below {{moves [N] to [N], but none of 2 parts holds these of [N]}}
  %y = omnibal.reshard %x from <split(0 : N)> to <copied> parts 2 of tensor<?xf32, affine_map<(d0, d1) -> (d1)>> : (tensor<?xf32, affine_map<(d0, d1) -> (d1)>>) -> tensor<?xf32, affine_map<(d0, d1) -> (d1)>>
  return
}

// -----

// reshard_c1
func.func @f(%x: tensor<2x12xf32>) {
  // expected-error @below {{which is no part of}}
  %y = omnibal.reshard %x from <split(1 : 24)> to <copied> parts 2 of tensor<2x24xf64> : (tensor<2x12xf32>) -> tensor<2x24xf32>
  return
}

// -----

// reshard_c2
func.func @f(%x: tensor<2xi32>) {
  // expected-error @below {{moves partial values of type 'i32'; integers are not partial}}
  %y = omnibal.reshard %x from <whole> to <partial> parts 2 of tensor<2xi32> : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

// split_c1
// expected-error @below {{a split has a dimension >= 0, units >= 0 and inner >= 1}}
func.func private @f() attributes {a = #plan.layout<split(1 : 4 x 0)>}
