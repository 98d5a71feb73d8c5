// One function a case of GradientTest.cpp: constants and one differentiable op. Floating arguments are
// drawn from `t.range` ([-1, 1] by default), integer arguments are `t.values`. V = 2, N = 5.
#N = affine_map<(d0, d1) -> (d1)>
#N3 = affine_map<(d0, d1) -> (d1, 3)>
#V23 = affine_map<(d0, d1) -> (d0, 2, 3)>
#N1 = affine_map<(d0, d1) -> (d1, 1)>
#T12V4 = affine_map<(d0, d1) -> (1, 2, d0 * 2, 4)>
#T12V3 = affine_map<(d0, d1) -> (1, 2, d0 * 2, 3)>
#T14N4 = affine_map<(d0, d1) -> (1, 4, d1, 4)>
#T12N4 = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#T14N3 = affine_map<(d0, d1) -> (1, 4, d1, 3)>
#T12N3 = affine_map<(d0, d1) -> (1, 2, d1, 3)>
#T14N = affine_map<(d0, d1) -> (1, 4, d1)>
#T1N3 = affine_map<(d0, d1) -> (1, d1, 3)>
#CU = affine_map<(d0, d1) -> (d1 + 1)>

func.func @neg(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.neg %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @exp(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.exp %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @erf(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.erf %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @tanh(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.tanh %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @sigmoid(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.sigmoid %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @cos(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.cos %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @sin(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.sin %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @abs(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.abs %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @relu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.relu %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @silu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.silu %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @quick_gelu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.quick_gelu %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @gelu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.gelu %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @cast(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.cast %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @log(%x: tensor<2x3xf64> {t.range = [0.5, 2.0]}) -> tensor<2x3xf64> {
  %y = omnibal.log %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @sqrt(%x: tensor<2x3xf64> {t.range = [0.5, 2.0]}) -> tensor<2x3xf64> {
  %y = omnibal.sqrt %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @rsqrt(%x: tensor<2x3xf64> {t.range = [0.5, 2.0]}) -> tensor<2x3xf64> {
  %y = omnibal.rsqrt %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @reciprocal(%x: tensor<2x3xf64> {t.range = [0.5, 2.0]}) -> tensor<2x3xf64> {
  %y = omnibal.reciprocal %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @gelu_tanh(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.gelu %x {tanh} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @add(%a: tensor<2x3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.add %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @add_stretch(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.add %a, %b : (tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @sub(%a: tensor<2x3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.sub %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @sub_stretch(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.sub %a, %b : (tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @mul(%a: tensor<2x3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.mul %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @mul_stretch(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.mul %a, %b : (tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @max(%a: tensor<2x3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.max %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @max_stretch(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.max %a, %b : (tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @min(%a: tensor<2x3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.min %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @min_stretch(%a: tensor<2x1xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.min %a, %b : (tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @mul_symbolic(%a: tensor<?x3xf64, #N3>, %b: tensor<3xf64>) -> tensor<?x3xf64, #N3> {
  %y = omnibal.mul %a, %b : (tensor<?x3xf64, #N3>, tensor<3xf64>) -> tensor<?x3xf64, #N3>
  return %y : tensor<?x3xf64, #N3>
}
func.func @div(%a: tensor<2x3xf64>, %b: tensor<2x1xf64> {t.range = [0.5, 2.0]}) -> tensor<2x3xf64> {
  %y = omnibal.div %a, %b : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @pow(%a: tensor<2x3xf64> {t.range = [0.5, 2.0]}, %b: tensor<3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.pow %a, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @pow_square(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %e = omnibal.constant dense<2.0> : tensor<f64>
  %y = omnibal.pow %a, %e : (tensor<2x3xf64>, tensor<f64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @pow_integer_exponent(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %e = omnibal.constant dense<3> : tensor<i64>
  %y = omnibal.pow %a, %e : (tensor<2x3xf64>, tensor<i64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @select(%c: tensor<2x3xi1> {t.values = dense<[[true, false, true], [false, false, true]]> : tensor<2x3xi1>}, %a: tensor<2x3xf64>, %b: tensor<1x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.select %c, %a, %b : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<1x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @reshape(%a: tensor<2x3xf64>) -> tensor<3x1x2xf64> {
  %y = omnibal.reshape %a : (tensor<2x3xf64>) -> tensor<3x1x2xf64>
  return %y : tensor<3x1x2xf64>
}
func.func @squeeze(%a: tensor<1x2x1x3xf64>) -> tensor<2x3xf64> {
  %y = omnibal.squeeze %a : (tensor<1x2x1x3xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @unsqueeze(%a: tensor<2x3xf64>) -> tensor<1x2x1x3xf64> {
  %i = omnibal.constant dense<[0, 2]> : tensor<2xi64>
  %y = omnibal.unsqueeze %a, %i : (tensor<2x3xf64>, tensor<2xi64>) -> tensor<1x2x1x3xf64>
  return %y : tensor<1x2x1x3xf64>
}
func.func @transpose(%a: tensor<2x3x4xf64>) -> tensor<4x2x3xf64> {
  %y = omnibal.transpose %a {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
  return %y : tensor<4x2x3xf64>
}
func.func @expand(%a: tensor<3x1xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.expand %a : (tensor<3x1xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @expand_symbolic(%a: tensor<1x3xf64>) -> tensor<?x3xf64, #N3> {
  %y = omnibal.expand %a : (tensor<1x3xf64>) -> tensor<?x3xf64, #N3>
  return %y : tensor<?x3xf64, #N3>
}
func.func @slice(%a: tensor<4x7xf64>) -> tensor<2x3xf64> {
  %y = omnibal.slice %a {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 1, 0>, step = array<i64: 1, 3>} : (tensor<4x7xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @slice_backwards(%a: tensor<4x7xf64>) -> tensor<2x3xf64> {
  %y = omnibal.slice %a {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 3, 6>, step = array<i64: -1, -2>} : (tensor<4x7xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @concat(%a: tensor<2x3xf64>, %b: tensor<2x1xf64>, %c: tensor<2x3xf64>) -> tensor<2x7xf64> {
  %y = omnibal.concat %a, %b, %c {axis = -1 : i64} : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x7xf64>
  return %y : tensor<2x7xf64>
}
func.func @concat_symbolic(%a: tensor<2x3xf64>, %b: tensor<?x3xf64, #N3>) -> tensor<?x3xf64, affine_map<(d0, d1) -> (d1 + 2, 3)>> {
  %y = omnibal.concat %a, %b {axis = 0 : i64} : (tensor<2x3xf64>, tensor<?x3xf64, #N3>) -> tensor<?x3xf64, affine_map<(d0, d1) -> (d1 + 2, 3)>>
  return %y : tensor<?x3xf64, affine_map<(d0, d1) -> (d1 + 2, 3)>>
}
func.func @pad(%a: tensor<2x3xf64>) -> tensor<4x8xf64> {
  %y = omnibal.pad %a {low = array<i64: 1, 2>, step = array<i64: 1, 2>} : (tensor<2x3xf64>) -> tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}
func.func @tile(%a: tensor<2x3xf64>) -> tensor<4x9xf64> {
  %r = omnibal.constant dense<[2, 3]> : tensor<2xi64>
  %y = omnibal.tile %a, %r : (tensor<2x3xf64>, tensor<2xi64>) -> tensor<4x9xf64>
  return %y : tensor<4x9xf64>
}
func.func @gather(%a: tensor<4x3xf64>, %i: tensor<2x2xi64> {t.values = dense<[[0, 3], [3, -1]]> : tensor<2x2xi64>}) -> tensor<2x2x3xf64> {
  %y = omnibal.gather %a, %i {axis = 0 : i64} : (tensor<4x3xf64>, tensor<2x2xi64>) -> tensor<2x2x3xf64>
  return %y : tensor<2x2x3xf64>
}
func.func @gather_axis(%a: tensor<2x4x3xf64>, %i: tensor<2x2xi64> {t.values = dense<[[0, 3], [3, 1]]> : tensor<2x2xi64>}) -> tensor<2x2x2x3xf64> {
  %y = omnibal.gather %a, %i {axis = 1 : i64} : (tensor<2x4x3xf64>, tensor<2x2xi64>) -> tensor<2x2x2x3xf64>
  return %y : tensor<2x2x2x3xf64>
}
func.func @gather_nd(%a: tensor<4x3x2xf64>, %i: tensor<2x2xi64> {t.values = dense<[[0, 2], [3, 1]]> : tensor<2x2xi64>}) -> tensor<2x2xf64> {
  %y = omnibal.gather_nd %a, %i {batch_dims = 0 : i64} : (tensor<4x3x2xf64>, tensor<2x2xi64>) -> tensor<2x2xf64>
  return %y : tensor<2x2xf64>
}
func.func @gather_nd_batch(%a: tensor<2x3x2xf64>, %i: tensor<2x2x1xi64> {t.values = dense<[[[0], [2]], [[1], [1]]]> : tensor<2x2x1xi64>}) -> tensor<2x2x2xf64> {
  %y = omnibal.gather_nd %a, %i {batch_dims = 1 : i64} : (tensor<2x3x2xf64>, tensor<2x2x1xi64>) -> tensor<2x2x2xf64>
  return %y : tensor<2x2x2xf64>
}
func.func @gather_elements(%a: tensor<4x3xf64>, %i: tensor<2x3xi64> {t.values = dense<[[0, 2, 3], [0, 1, 1]]> : tensor<2x3xi64>}) -> tensor<2x3xf64> {
  %y = omnibal.gather_elements %a, %i {axis = 0 : i64} : (tensor<4x3xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @scatter_nd_none(%a: tensor<4x3xf64>, %i: tensor<2x1xi64> {t.values = dense<[[1], [3]]> : tensor<2x1xi64>}, %u: tensor<2x3xf64>) -> tensor<4x3xf64> {
  %y = omnibal.scatter_nd %a, %i, %u {reduction = "none"} : (tensor<4x3xf64>, tensor<2x1xi64>, tensor<2x3xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
func.func @scatter_elements_none(%a: tensor<4x3xf64>, %i: tensor<2x3xi64> {t.values = dense<[[0, 2, 3], [1, 1, 2]]> : tensor<2x3xi64>}, %u: tensor<2x3xf64>) -> tensor<4x3xf64> {
  %y = omnibal.scatter_elements %a, %i, %u {axis = 0 : i64, reduction = "none"} : (tensor<4x3xf64>, tensor<2x3xi64>, tensor<2x3xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
func.func @scatter_nd_add(%a: tensor<4x3xf64>, %i: tensor<2x1xi64> {t.values = dense<[[1], [3]]> : tensor<2x1xi64>}, %u: tensor<2x3xf64>) -> tensor<4x3xf64> {
  %y = omnibal.scatter_nd %a, %i, %u {reduction = "add"} : (tensor<4x3xf64>, tensor<2x1xi64>, tensor<2x3xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
func.func @scatter_elements_add(%a: tensor<4x3xf64>, %i: tensor<2x3xi64> {t.values = dense<[[0, 2, 3], [1, 1, 2]]> : tensor<2x3xi64>}, %u: tensor<2x3xf64>) -> tensor<4x3xf64> {
  %y = omnibal.scatter_elements %a, %i, %u {axis = 0 : i64, reduction = "add"} : (tensor<4x3xf64>, tensor<2x3xi64>, tensor<2x3xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
func.func @trilu(%a: tensor<3x4xf64>) -> tensor<3x4xf64> {
  %y = omnibal.trilu %a {upper = true} : (tensor<3x4xf64>) -> tensor<3x4xf64>
  return %y : tensor<3x4xf64>
}
func.func @trilu_lower(%a: tensor<3x4xf64>) -> tensor<3x4xf64> {
  %k = omnibal.constant dense<1> : tensor<i64>
  %y = omnibal.trilu %a, %k {upper = false} : (tensor<3x4xf64>, tensor<i64>) -> tensor<3x4xf64>
  return %y : tensor<3x4xf64>
}
func.func @reduce_sum(%a: tensor<2x3x4xf64>) -> tensor<2x1x4xf64> {
  %y = omnibal.reduce %a {kind = 0 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf64>) -> tensor<2x1x4xf64>
  return %y : tensor<2x1x4xf64>
}
func.func @reduce_mean(%a: tensor<2x3x4xf64>) -> tensor<2x1x4xf64> {
  %y = omnibal.reduce %a {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf64>) -> tensor<2x1x4xf64>
  return %y : tensor<2x1x4xf64>
}
func.func @reduce_max(%a: tensor<2x3x4xf64>) -> tensor<2x1x4xf64> {
  %y = omnibal.reduce %a {kind = 2 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf64>) -> tensor<2x1x4xf64>
  return %y : tensor<2x1x4xf64>
}
func.func @reduce_min(%a: tensor<2x3x4xf64>) -> tensor<2x1x4xf64> {
  %y = omnibal.reduce %a {kind = 3 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf64>) -> tensor<2x1x4xf64>
  return %y : tensor<2x1x4xf64>
}
func.func @reduce_prod(%a: tensor<2x3x4xf64>) -> tensor<2x1x4xf64> {
  %y = omnibal.reduce %a {kind = 4 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf64>) -> tensor<2x1x4xf64>
  return %y : tensor<2x1x4xf64>
}
func.func @reduce_all(%a: tensor<2x3x4xf64>) -> tensor<f64> {
  %y = omnibal.reduce %a {kind = 1 : i32} : (tensor<2x3x4xf64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func @reduce_mean_symbolic(%a: tensor<?x3xf64, #N3>) -> tensor<3xf64> {
  %y = omnibal.reduce %a {kind = 1 : i32, axes = array<i64: 0>} : (tensor<?x3xf64, #N3>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func @reduce_prod_zero() -> tensor<2xf64> {
  %x = omnibal.constant dense<[[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]]> : tensor<2x3xf64>
  %y = omnibal.reduce %x {kind = 4 : i32, axes = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>
  return %y : tensor<2xf64>
}
func.func @cumsum_(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %y = omnibal.cumsum %a {axis = 1 : i64} : (tensor<2x4xf64>) -> tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
func.func @cumsum_exclusive(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %y = omnibal.cumsum %a {axis = 1 : i64, exclusive} : (tensor<2x4xf64>) -> tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
func.func @cumsum_reverse(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %y = omnibal.cumsum %a {axis = 1 : i64, reverse} : (tensor<2x4xf64>) -> tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
func.func @cumsum_exclusive_reverse(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %y = omnibal.cumsum %a {axis = 1 : i64, exclusive, reverse} : (tensor<2x4xf64>) -> tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
func.func @softmax(%a: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.softmax %a {axis = 1 : i64} : (tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @log_softmax(%a: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.log_softmax %a {axis = 1 : i64} : (tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @layer_norm(%x: tensor<2x3x4xf64>, %s: tensor<4xf64>, %b: tensor<4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.layer_norm %x, %s, %b {axis = -1 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @layer_norm_two_axes(%x: tensor<2x3x4xf64>, %s: tensor<3x4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.layer_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>, tensor<3x4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @rms_norm(%x: tensor<2x3x4xf64>, %s: tensor<4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.rms_norm %x, %s {axis = 2 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>, tensor<4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @rms_norm_plain(%x: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
  %y = omnibal.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
  return %y : tensor<2x3x4xf64>
}
func.func @rms_norm_symbolic(%x: tensor<?x3xf64, #N3>, %s: tensor<3xf64>) -> tensor<?x3xf64, #N3> {
  %y = omnibal.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-2 : f64} : (tensor<?x3xf64, #N3>, tensor<3xf64>) -> tensor<?x3xf64, #N3>
  return %y : tensor<?x3xf64, #N3>
}
func.func @matmul_00(%a: tensor<2x1x3x4xf64>, %b: tensor<3x4x5xf64>) -> tensor<2x3x3x5xf64> {
  %y = omnibal.matmul %a, %b : (tensor<2x1x3x4xf64>, tensor<3x4x5xf64>) -> tensor<2x3x3x5xf64>
  return %y : tensor<2x3x3x5xf64>
}
func.func @matmul_weight_00(%a: tensor<2x3x4xf64>, %b: tensor<4x5xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.matmul %a, %b : (tensor<2x3x4xf64>, tensor<4x5xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @matmul_01(%a: tensor<2x1x3x4xf64>, %b: tensor<3x5x4xf64>) -> tensor<2x3x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_rhs} : (tensor<2x1x3x4xf64>, tensor<3x5x4xf64>) -> tensor<2x3x3x5xf64>
  return %y : tensor<2x3x3x5xf64>
}
func.func @matmul_weight_01(%a: tensor<2x3x4xf64>, %b: tensor<5x4xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_rhs} : (tensor<2x3x4xf64>, tensor<5x4xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @matmul_10(%a: tensor<2x1x4x3xf64>, %b: tensor<3x4x5xf64>) -> tensor<2x3x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_lhs} : (tensor<2x1x4x3xf64>, tensor<3x4x5xf64>) -> tensor<2x3x3x5xf64>
  return %y : tensor<2x3x3x5xf64>
}
func.func @matmul_weight_10(%a: tensor<2x4x3xf64>, %b: tensor<4x5xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_lhs} : (tensor<2x4x3xf64>, tensor<4x5xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @matmul_11(%a: tensor<2x1x4x3xf64>, %b: tensor<3x5x4xf64>) -> tensor<2x3x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_lhs, transpose_rhs} : (tensor<2x1x4x3xf64>, tensor<3x5x4xf64>) -> tensor<2x3x3x5xf64>
  return %y : tensor<2x3x3x5xf64>
}
func.func @matmul_weight_11(%a: tensor<2x4x3xf64>, %b: tensor<5x4xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.matmul %a, %b {transpose_lhs, transpose_rhs} : (tensor<2x4x3xf64>, tensor<5x4xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @matmul_vector_left(%a: tensor<4xf64>, %b: tensor<2x4x5xf64>) -> tensor<2x5xf64> {
  %y = omnibal.matmul %a, %b : (tensor<4xf64>, tensor<2x4x5xf64>) -> tensor<2x5xf64>
  return %y : tensor<2x5xf64>
}
func.func @matmul_vector_right(%a: tensor<2x3x4xf64>, %b: tensor<4xf64>) -> tensor<2x3xf64> {
  %y = omnibal.matmul %a, %b : (tensor<2x3x4xf64>, tensor<4xf64>) -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @matmul_vectors(%a: tensor<4xf64>, %b: tensor<4xf64>) -> tensor<f64> {
  %y = omnibal.matmul %a, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func @linear(%x: tensor<2x3x4xf64>, %w: tensor<5x4xf64>, %b: tensor<5xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.linear %x, %w, %b : (tensor<2x3x4xf64>, tensor<5x4xf64>, tensor<5xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @linear_in_out(%x: tensor<2x3x4xf64>, %w: tensor<4x5xf64>) -> tensor<2x3x5xf64> {
  %y = omnibal.linear %x, %w {in_out} : (tensor<2x3x4xf64>, tensor<4x5xf64>) -> tensor<2x3x5xf64>
  return %y : tensor<2x3x5xf64>
}
func.func @conv(%x: tensor<2x3x5x6xf64>, %w: tensor<4x3x2x3xf64>, %b: tensor<4xf64>) -> tensor<2x4x3x3xf64> {
  %y = omnibal.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<2x3x5x6xf64>, tensor<4x3x2x3xf64>, tensor<4xf64>) -> tensor<2x4x3x3xf64>
  return %y : tensor<2x4x3x3xf64>
}
func.func @conv_group(%x: tensor<2x4x7xf64>, %w: tensor<6x2x3xf64>) -> tensor<2x6x5xf64> {
  %y = omnibal.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 2>, group = 2 : i64} : (tensor<2x4x7xf64>, tensor<6x2x3xf64>) -> tensor<2x6x5xf64>
  return %y : tensor<2x6x5xf64>
}
func.func @attention_causal(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_sliding(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c {scale = 0.5 : f64, mask_kind = 3 : i32, window = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_prefix(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}, %t: tensor<?xi32, #N> {t.values = dense<[0, 1, 0, 0, 1]> : tensor<5xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c, %t {scale = 0.5 : f64, mask_kind = 4 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>, tensor<?xi32, #N>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_blocks(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 1, 5, 5, 5, 5]> : tensor<6xi32>}, %t: tensor<?xi32, #N> {t.values = dense<[1, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c, %t {scale = 0.5 : f64, mask_kind = 5 : i32, window = 2 : i64, type_range = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>, tensor<?xi32, #N>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_capped(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c {scale = 0.5 : f64, mask_kind = 2 : i32, softcap = 0.8 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_sinks(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12N4>, %v: tensor<1x2x?x3xf64, #T12N3>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}, %s: tensor<4xf64>) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c, %s {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12N4>, tensor<1x2x?x3xf64, #T12N3>, tensor<?xi32, #CU>, tensor<4xf64>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @attention_full(%q: tensor<2x2x3x4xf64>, %k: tensor<2x2x5x4xf64>, %v: tensor<2x2x5x4xf64>) -> tensor<2x2x3x4xf64> {
  %y:2 = omnibal.attention %q, %k, %v {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<2x2x3x4xf64>, tensor<2x2x5x4xf64>, tensor<2x2x5x4xf64>) -> (tensor<2x2x3x4xf64>, tensor<2x2x3xf64>)
  return %y#0 : tensor<2x2x3x4xf64>
}
func.func @cross_attention(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x2x?x4xf64, #T12V4>, %v: tensor<1x2x?x3xf64, #T12V3>, %b: tensor<?xi32, #N> {t.values = dense<[0, 0, 1, 1, 2]> : tensor<5xi32>}, %e: tensor<?xi32, #N> {t.values = dense<[2, 1, 2, 1, 2]> : tensor<5xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y:2 = omnibal.cross_attention %q, %k, %v, %b, %e {scale = 0.5 : f64, rows = 2 : i64} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x2x?x4xf64, #T12V4>, tensor<1x2x?x3xf64, #T12V3>, tensor<?xi32, #N>, tensor<?xi32, #N>) -> (tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>)
  return %y#0 : tensor<1x4x?x3xf64, #T14N3>
}
func.func @gated_delta(%q: tensor<1x4x?x4xf64, #T14N4>, %k: tensor<1x4x?x4xf64, #T14N4>, %v: tensor<1x4x?x3xf64, #T14N3>, %g: tensor<1x4x?xf64, #T14N>, %b: tensor<1x4x?xf64, #T14N>, %c: tensor<?xi32, #CU> {t.values = dense<[0, 2, 5, 5, 5, 5]> : tensor<6xi32>}) -> tensor<1x4x?x3xf64, #T14N3> {
  %y = omnibal.gated_delta %q, %k, %v, %g, %b, %c {scale = 0.5 : f64} : (tensor<1x4x?x4xf64, #T14N4>, tensor<1x4x?x4xf64, #T14N4>, tensor<1x4x?x3xf64, #T14N3>, tensor<1x4x?xf64, #T14N>, tensor<1x4x?xf64, #T14N>, tensor<?xi32, #CU>) -> tensor<1x4x?x3xf64, #T14N3>
  return %y : tensor<1x4x?x3xf64, #T14N3>
}
func.func @rope_2(%x: tensor<1x2x?x4xf64, #T12N4>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x2x?x4xf64, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23], [0.41, 0.34], [0.52, 0.45]]> : tensor<3x2xf64>
  %s = omnibal.constant dense<[[0.5, 0.55], [0.37, 0.42], [0.24, 0.29]]> : tensor<3x2xf64>
  %y = omnibal.rope %x, %p, %c, %s : (tensor<1x2x?x4xf64, #T12N4>, tensor<?xi32, #N>, tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<1x2x?x4xf64, #T12N4>
  return %y : tensor<1x2x?x4xf64, #T12N4>
}
func.func @rope_4(%x: tensor<1x2x?x4xf64, #T12N4>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x2x?x4xf64, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23, 0.02, -0.33], [0.41, 0.34, 0.13, -0.22], [0.52, 0.45, 0.24, -0.11]]> : tensor<3x4xf64>
  %s = omnibal.constant dense<[[0.5, 0.55, 0.6, 0.65], [0.37, 0.42, 0.47, 0.52], [0.24, 0.29, 0.34, 0.39]]> : tensor<3x4xf64>
  %y = omnibal.rope %x, %p, %c, %s : (tensor<1x2x?x4xf64, #T12N4>, tensor<?xi32, #N>, tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<1x2x?x4xf64, #T12N4>
  return %y : tensor<1x2x?x4xf64, #T12N4>
}
func.func @rope_interleaved4(%x: tensor<1x2x?x4xf64, #T12N4>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x2x?x4xf64, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23, 0.02, -0.33], [0.41, 0.34, 0.13, -0.22], [0.52, 0.45, 0.24, -0.11]]> : tensor<3x4xf64>
  %s = omnibal.constant dense<[[0.5, 0.55, 0.6, 0.65], [0.37, 0.42, 0.47, 0.52], [0.24, 0.29, 0.34, 0.39]]> : tensor<3x4xf64>
  %y = omnibal.rope %x, %p, %c, %s {interleaved} : (tensor<1x2x?x4xf64, #T12N4>, tensor<?xi32, #N>, tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<1x2x?x4xf64, #T12N4>
  return %y : tensor<1x2x?x4xf64, #T12N4>
}
func.func @rope_inverse4(%x: tensor<1x2x?x4xf64, #T12N4>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x2x?x4xf64, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23, 0.02, -0.33], [0.41, 0.34, 0.13, -0.22], [0.52, 0.45, 0.24, -0.11]]> : tensor<3x4xf64>
  %s = omnibal.constant dense<[[0.5, 0.55, 0.6, 0.65], [0.37, 0.42, 0.47, 0.52], [0.24, 0.29, 0.34, 0.39]]> : tensor<3x4xf64>
  %y = omnibal.rope %x, %p, %c, %s {inverse} : (tensor<1x2x?x4xf64, #T12N4>, tensor<?xi32, #N>, tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<1x2x?x4xf64, #T12N4>
  return %y : tensor<1x2x?x4xf64, #T12N4>
}
func.func @rope_interleaved_inverse4(%x: tensor<1x2x?x4xf64, #T12N4>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 2, 0, 1]> : tensor<5xi32>}) -> tensor<1x2x?x4xf64, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23, 0.02, -0.33], [0.41, 0.34, 0.13, -0.22], [0.52, 0.45, 0.24, -0.11]]> : tensor<3x4xf64>
  %s = omnibal.constant dense<[[0.5, 0.55, 0.6, 0.65], [0.37, 0.42, 0.47, 0.52], [0.24, 0.29, 0.34, 0.39]]> : tensor<3x4xf64>
  %y = omnibal.rope %x, %p, %c, %s {interleaved, inverse} : (tensor<1x2x?x4xf64, #T12N4>, tensor<?xi32, #N>, tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<1x2x?x4xf64, #T12N4>
  return %y : tensor<1x2x?x4xf64, #T12N4>
}
func.func @embedding(%t: tensor<4x3xf64>, %i: tensor<?xi32, #N> {t.values = dense<[0, 3, 3, 1, 0]> : tensor<5xi32>}) -> tensor<?x3xf64, #N3> {
  %y = omnibal.embedding %t, %i : (tensor<4x3xf64>, tensor<?xi32, #N>) -> tensor<?x3xf64, #N3>
  return %y : tensor<?x3xf64, #N3>
}
func.func @shift_tokens(%x: tensor<1x?x3xf64, #T1N3>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 0, 1, 2]> : tensor<5xi32>}) -> tensor<1x?x3xf64, #T1N3> {
  %y = omnibal.shift_tokens %x, %p {distance = 1 : i64} : (tensor<1x?x3xf64, #T1N3>, tensor<?xi32, #N>) -> tensor<1x?x3xf64, #T1N3>
  return %y : tensor<1x?x3xf64, #T1N3>
}
func.func @shift_tokens_inverse(%x: tensor<1x?x3xf64, #T1N3>, %p: tensor<?xi32, #N> {t.values = dense<[0, 1, 0, 1, 2]> : tensor<5xi32>}) -> tensor<1x?x3xf64, #T1N3> {
  %y = omnibal.shift_tokens %x, %p {distance = 1 : i64, inverse} : (tensor<1x?x3xf64, #T1N3>, tensor<?xi32, #N>) -> tensor<1x?x3xf64, #T1N3>
  return %y : tensor<1x?x3xf64, #T1N3>
}
func.func @image_merge(%x: tensor<1x?x3xf64, #T1N3>, %f: tensor<?x2x3xf64, #V23>, %r: tensor<?xi32, #N> {t.values = dense<[-1, 2, 0, -1, 1]> : tensor<5xi32>}) -> tensor<1x?x3xf64, #T1N3> {
  %y = omnibal.image_merge %x, %f, %r : (tensor<1x?x3xf64, #T1N3>, tensor<?x2x3xf64, #V23>, tensor<?xi32, #N>) -> tensor<1x?x3xf64, #T1N3>
  return %y : tensor<1x?x3xf64, #T1N3>
}
func.func @cross_entropy(%x: tensor<?x7xf64, affine_map<(d0, d1) -> (d1, 7)>>, %t: tensor<?xi32, #N> {t.values = dense<[3, -1, 0, 6, -1]> : tensor<5xi32>}) -> tensor<?xf64, #N> {
  %y = omnibal.cross_entropy %x, %t {smoothing = 0.2 : f64, z = 0.1 : f64} : (tensor<?x7xf64, affine_map<(d0, d1) -> (d1, 7)>>, tensor<?xi32, #N>) -> tensor<?xf64, #N>
  return %y : tensor<?xf64, #N>
}
func.func @linear_cross_entropy(%h: tensor<?x3xf64, #N3>, %w: tensor<7x3xf64>, %b: tensor<7xf64>, %t: tensor<?xi32, #N> {t.values = dense<[3, -1, 0, 6, -1]> : tensor<5xi32>}) -> tensor<?xf64, #N> {
  %y = omnibal.linear_cross_entropy %h, %w, %b, %t {scale = 0.7 : f64} : (tensor<?x3xf64, #N3>, tensor<7x3xf64>, tensor<7xf64>, tensor<?xi32, #N>) -> tensor<?xf64, #N>
  return %y : tensor<?xf64, #N>
}
func.func @linear_cross_entropy_plain(%h: tensor<?x3xf64, #N3>, %w: tensor<7x3xf64>, %t: tensor<?xi32, #N> {t.values = dense<[3, -1, 0, 6, -1]> : tensor<5xi32>}) -> tensor<?xf64, #N> {
  %y = omnibal.linear_cross_entropy %h, %w, %t {smoothing = 0.1 : f64, z = 0.3 : f64} : (tensor<?x3xf64, #N3>, tensor<7x3xf64>, tensor<?xi32, #N>) -> tensor<?xf64, #N>
  return %y : tensor<?xf64, #N>
}
func.func @preference_loss(%l: tensor<5xf64>, %c: tensor<6xi32> {t.values = dense<[0, 2, 4, 5, 5, 5]> : tensor<6xi32>}) -> tensor<5xf64> {
  %r = omnibal.constant dense<[-1.5, 9.0, 0.5, 9.0, 9.0]> : tensor<5xf64>
  %y:4 = omnibal.preference_loss %l, %c, %r {beta = 0.7 : f64, smoothing = 0.2 : f64} : (tensor<5xf64>, tensor<6xi32>, tensor<5xf64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  return %y#0 : tensor<5xf64>
}
func.func @grouped_linear(%x: tensor<?x3xf64, #N3>, %w: tensor<4x2x3xf64>, %o: tensor<?xi32, #N> {t.values = dense<[1, 4, 0, 2, 3]> : tensor<5xi32>}, %b: tensor<5xi32> {t.values = dense<[0, 2, 2, 3, 5]> : tensor<5xi32>}) -> tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>> {
  %y = omnibal.grouped_linear %x, %w, %o, %b : (tensor<?x3xf64, #N3>, tensor<4x2x3xf64>, tensor<?xi32, #N>, tensor<5xi32>) -> tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>>
  return %y : tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>>
}
func.func @grouped_linear_in_out(%x: tensor<?x3xf64, #N3>, %w: tensor<4x3x2xf64>, %o: tensor<?xi32, #N> {t.values = dense<[1, 4, 0, 2, 3]> : tensor<5xi32>}, %b: tensor<5xi32> {t.values = dense<[0, 2, 2, 3, 5]> : tensor<5xi32>}) -> tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>> {
  %y = omnibal.grouped_linear %x, %w, %o, %b {in_out} : (tensor<?x3xf64, #N3>, tensor<4x3x2xf64>, tensor<?xi32, #N>, tensor<5xi32>) -> tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>>
  return %y : tensor<?x2xf64, affine_map<(d0, d1) -> (d1, 2)>>
}
