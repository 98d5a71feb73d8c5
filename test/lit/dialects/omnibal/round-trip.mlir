// RUN: omnibal-opt %s > %t.once && omnibal-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: omnibal-opt %s --mlir-print-op-generic | omnibal-opt > %t.generic && diff %t.once %t.generic
// RUN: omnibal-opt %s --emit-bytecode | omnibal-opt > %t.bytecode && diff %t.once %t.bytecode
// RUN: FileCheck -enable-var-scope %s < %t.once
// Every op of the tensor and neural-network files prints, parses and prints the same again.
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
#N4 = affine_map<(d0, d1) -> (d1, 4)>

// CHECK-LABEL: func.func @neg(
// CHECK: omnibal.neg 
func.func @neg(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.neg %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @exp(
// CHECK: omnibal.exp 
func.func @exp(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @erf(
// CHECK: omnibal.erf 
func.func @erf(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @tanh(
// CHECK: omnibal.tanh 
func.func @tanh(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sigmoid(
// CHECK: omnibal.sigmoid 
func.func @sigmoid(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @cos(
// CHECK: omnibal.cos 
func.func @cos(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sin(
// CHECK: omnibal.sin 
func.func @sin(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @abs(
// CHECK: omnibal.abs 
func.func @abs(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @relu(
// CHECK: omnibal.relu 
func.func @relu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @silu(
// CHECK: omnibal.silu 
func.func @silu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.silu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @quick_gelu(
// CHECK: omnibal.quick_gelu 
func.func @quick_gelu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.quick_gelu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @gelu(
// CHECK: omnibal.gelu 
func.func @gelu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.gelu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @cast(
// CHECK: omnibal.cast 
func.func @cast(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.cast %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @log(
// CHECK: omnibal.log 
func.func @log(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sqrt(
// CHECK: omnibal.sqrt 
func.func @sqrt(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.sqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @rsqrt(
// CHECK: omnibal.rsqrt 
func.func @rsqrt(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.rsqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reciprocal(
// CHECK: omnibal.reciprocal 
func.func @reciprocal(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.reciprocal %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @add(
// CHECK: omnibal.add 
func.func @add(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sub(
// CHECK: omnibal.sub 
func.func @sub(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @mul(
// CHECK: omnibal.mul 
func.func @mul(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @max(
// CHECK: omnibal.max 
func.func @max(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @min(
// CHECK: omnibal.min 
func.func @min(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @div(
// CHECK: omnibal.div 
func.func @div(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>) -> tensor<2x3xf32> {
  %y = omnibal.div %a, %b : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @pow(
// CHECK: omnibal.pow 
func.func @pow(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.pow %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @select(
// CHECK: omnibal.select 
func.func @select(%c: tensor<2x3xi1>, %a: tensor<2x3xf32>, %b: tensor<1x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.select %c, %a, %b : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshape(
// CHECK: omnibal.reshape 
func.func @reshape(%a: tensor<2x3xf32>) -> tensor<3x1x2xf32> {
  %y = omnibal.reshape %a : (tensor<2x3xf32>) -> tensor<3x1x2xf32>
  return %y : tensor<3x1x2xf32>
}

// CHECK-LABEL: func.func @squeeze(
// CHECK: omnibal.squeeze 
func.func @squeeze(%a: tensor<1x2x1x3xf32>) -> tensor<2x3xf32> {
  %y = omnibal.squeeze %a : (tensor<1x2x1x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @unsqueeze(
// CHECK: omnibal.unsqueeze 
func.func @unsqueeze(%a: tensor<2x3xf32>) -> tensor<1x2x1x3xf32> {
  %i = omnibal.constant dense<[0, 2]> : tensor<2xi64>
  %y = omnibal.unsqueeze %a, %i : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<1x2x1x3xf32>
  return %y : tensor<1x2x1x3xf32>
}

// CHECK-LABEL: func.func @transpose(
// CHECK: omnibal.transpose 
func.func @transpose(%a: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %y = omnibal.transpose %a {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %y : tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @expand(
// CHECK: omnibal.expand 
func.func @expand(%a: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %y = omnibal.expand %a : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @slice(
// CHECK: omnibal.slice 
func.func @slice(%a: tensor<4x7xf32>) -> tensor<2x3xf32> {
  %y = omnibal.slice %a {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 1, 0>, step = array<i64: 1, 3>} : (tensor<4x7xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @concat(
// CHECK: omnibal.concat 
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>, %c: tensor<2x3xf32>) -> tensor<2x7xf32> {
  %y = omnibal.concat %a, %b, %c {axis = -1 : i64} : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
  return %y : tensor<2x7xf32>
}

// CHECK-LABEL: func.func @pad(
// CHECK: omnibal.pad 
func.func @pad(%a: tensor<2x3xf32>) -> tensor<4x8xf32> {
  %y = omnibal.pad %a {low = array<i64: 1, 2>, step = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @tile(
// CHECK: omnibal.tile 
func.func @tile(%a: tensor<2x3xf32>) -> tensor<4x9xf32> {
  %r = omnibal.constant dense<[2, 3]> : tensor<2xi64>
  %y = omnibal.tile %a, %r : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<4x9xf32>
  return %y : tensor<4x9xf32>
}

// CHECK-LABEL: func.func @gather(
// CHECK: omnibal.gather 
func.func @gather(%a: tensor<4x3xf32>, %i: tensor<2x2xi64>) -> tensor<2x2x3xf32> {
  %y = omnibal.gather %a, %i {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  return %y : tensor<2x2x3xf32>
}

// CHECK-LABEL: func.func @gather_nd(
// CHECK: omnibal.gather_nd 
func.func @gather_nd(%a: tensor<4x3x2xf32>, %i: tensor<2x2xi64>) -> tensor<2x2xf32> {
  %y = omnibal.gather_nd %a, %i {batch_dims = 0 : i64} : (tensor<4x3x2xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @gather_elements(
// CHECK: omnibal.gather_elements 
func.func @gather_elements(%a: tensor<4x3xf32>, %i: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %y = omnibal.gather_elements %a, %i {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @scatter_nd_none(
// CHECK: omnibal.scatter_nd 
func.func @scatter_nd_none(%a: tensor<4x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %y = omnibal.scatter_nd %a, %i, %u {reduction = "none"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @scatter_elements_none(
// CHECK: omnibal.scatter_elements 
func.func @scatter_elements_none(%a: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %y = omnibal.scatter_elements %a, %i, %u {axis = 0 : i64, reduction = "none"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @trilu(
// CHECK: omnibal.trilu 
func.func @trilu(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %y = omnibal.trilu %a {upper = true} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @reduce_sum(
// CHECK: omnibal.reduce 
func.func @reduce_sum(%a: tensor<2x3x4xf32>) -> tensor<2x1x4xf32> {
  %y = omnibal.reduce %a {kind = 0 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  return %y : tensor<2x1x4xf32>
}

// CHECK-LABEL: func.func @cumsum_(
// CHECK: omnibal.cumsum 
func.func @cumsum_(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = omnibal.cumsum %a {axis = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @softmax(
// CHECK: omnibal.softmax 
func.func @softmax(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %y = omnibal.softmax %a {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @log_softmax(
// CHECK: omnibal.log_softmax 
func.func @log_softmax(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %y = omnibal.log_softmax %a {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @layer_norm(
// CHECK: omnibal.layer_norm 
func.func @layer_norm(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %y = omnibal.layer_norm %x, %s, %b {axis = -1 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @rms_norm(
// CHECK: omnibal.rms_norm 
func.func @rms_norm(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %y = omnibal.rms_norm %x, %s {axis = 2 : i64, epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @matmul_00(
// CHECK: omnibal.matmul 
func.func @matmul_00(%a: tensor<2x1x3x4xf32>, %b: tensor<3x4x5xf32>) -> tensor<2x3x3x5xf32> {
  %y = omnibal.matmul %a, %b : (tensor<2x1x3x4xf32>, tensor<3x4x5xf32>) -> tensor<2x3x3x5xf32>
  return %y : tensor<2x3x3x5xf32>
}

// CHECK-LABEL: func.func @linear(
// CHECK: omnibal.linear 
func.func @linear(%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>, %b: tensor<5xf32>) -> tensor<2x3x5xf32> {
  %y = omnibal.linear %x, %w, %b : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @row_squares(
// CHECK: omnibal.row_squares %{{.*}} {in_out, scale = 5.000000e-01 : f64}
func.func @row_squares(%w: tensor<4x5xf32>, %a: tensor<2x4xf32>, %b: tensor<5x2xf32>) -> tensor<5xf32> {
  %y = omnibal.row_squares %w, %a, %b {scale = 0.5 : f64, in_out} : (tensor<4x5xf32>, tensor<2x4xf32>, tensor<5x2xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// CHECK-LABEL: func.func @conv(
// CHECK: omnibal.conv 
func.func @conv(%x: tensor<2x3x5x6xf32>, %w: tensor<4x3x2x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x3x3xf32> {
  %y = omnibal.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<2x3x5x6xf32>, tensor<4x3x2x3xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
  return %y : tensor<2x4x3x3xf32>
}

// CHECK-LABEL: func.func @attention_causal(
// CHECK: omnibal.attention 
func.func @attention_causal(%q: tensor<1x4x?x4xf32, #T14N4>, %k: tensor<1x2x?x4xf32, #T12N4>, %v: tensor<1x2x?x3xf32, #T12N3>, %c: tensor<?xi32, #CU>) -> tensor<1x4x?x3xf32, #T14N3> {
  %y:2 = omnibal.attention %q, %k, %v, %c {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x4x?x4xf32, #T14N4>, tensor<1x2x?x4xf32, #T12N4>, tensor<1x2x?x3xf32, #T12N3>, tensor<?xi32, #CU>) -> (tensor<1x4x?x3xf32, #T14N3>, tensor<1x4x?xf32, #T14N>)
  return %y#0 : tensor<1x4x?x3xf32, #T14N3>
}

// CHECK-LABEL: func.func @rope_2(
// CHECK: omnibal.rope 
func.func @rope_2(%x: tensor<1x2x?x4xf32, #T12N4>, %p: tensor<?xi32, #N>) -> tensor<1x2x?x4xf32, #T12N4> {
  %c = omnibal.constant dense<[[0.3, 0.23], [0.41, 0.34], [0.52, 0.45]]> : tensor<3x2xf32>
  %s = omnibal.constant dense<[[0.5, 0.55], [0.37, 0.42], [0.24, 0.29]]> : tensor<3x2xf32>
  %y = omnibal.rope %x, %p, %c, %s : (tensor<1x2x?x4xf32, #T12N4>, tensor<?xi32, #N>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<1x2x?x4xf32, #T12N4>
  return %y : tensor<1x2x?x4xf32, #T12N4>
}

// CHECK-LABEL: func.func @embedding(
// CHECK: omnibal.embedding 
func.func @embedding(%t: tensor<4x3xf32>, %i: tensor<?xi32, #N>) -> tensor<?x3xf32, #N3> {
  %y = omnibal.embedding %t, %i : (tensor<4x3xf32>, tensor<?xi32, #N>) -> tensor<?x3xf32, #N3>
  return %y : tensor<?x3xf32, #N3>
}

// CHECK-LABEL: func.func @experts(
// CHECK: omnibal.top_k
// CHECK-SAME: k = 2
// CHECK: omnibal.group_rows
// CHECK-SAME: groups = 4
// CHECK: omnibal.grouped_linear %
// CHECK: omnibal.grouped_linear_weight_grad
func.func @experts(%s: tensor<5x4xf32>, %x: tensor<5x2x3xf32>, %w: tensor<4x6x3xf32>) -> tensor<4x6x3xf32> {
  %i = omnibal.top_k %s {k = 2 : i64} : (tensor<5x4xf32>) -> tensor<5x2xi64>
  %o, %b = omnibal.group_rows %i {groups = 4 : i64} : (tensor<5x2xi64>) -> (tensor<10xi32>, tensor<5xi32>)
  %y = omnibal.grouped_linear %x, %w, %o, %b : (tensor<5x2x3xf32>, tensor<4x6x3xf32>, tensor<10xi32>, tensor<5xi32>) -> tensor<5x2x6xf32>
  %g = omnibal.grouped_linear_weight_grad %x, %y, %o, %b : (tensor<5x2x3xf32>, tensor<5x2x6xf32>, tensor<10xi32>, tensor<5xi32>) -> tensor<4x6x3xf32>
  return %g : tensor<4x6x3xf32>
}

// CHECK-LABEL: func.func @cross_attention(
// CHECK: omnibal.cross_attention {{.*}} {rows = 2 : i64, scale = 5.000000e-01 : f64}
// CHECK: omnibal.cross_attention_grad 
func.func @cross_attention(%q: tensor<1x4x?x4xf32, #T14N4>, %k: tensor<1x2x?x4xf32, #T12V4>, %v: tensor<1x2x?x3xf32, #T12V3>, %b: tensor<?xi32, #N>) -> tensor<1x2x?x4xf32, #T12V4> {
  %y, %l = omnibal.cross_attention %q, %k, %v, %b, %b {scale = 0.5 : f64, rows = 2 : i64} : (tensor<1x4x?x4xf32, #T14N4>, tensor<1x2x?x4xf32, #T12V4>, tensor<1x2x?x3xf32, #T12V3>, tensor<?xi32, #N>, tensor<?xi32, #N>) -> (tensor<1x4x?x3xf32, #T14N3>, tensor<1x4x?xf32, #T14N>)
  %g:3 = omnibal.cross_attention_grad %q, %k, %v, %y, %l, %y, %b, %b {scale = 0.5 : f64, rows = 2 : i64} : (tensor<1x4x?x4xf32, #T14N4>, tensor<1x2x?x4xf32, #T12V4>, tensor<1x2x?x3xf32, #T12V3>, tensor<1x4x?x3xf32, #T14N3>, tensor<1x4x?xf32, #T14N>, tensor<1x4x?x3xf32, #T14N3>, tensor<?xi32, #N>, tensor<?xi32, #N>) -> (tensor<1x4x?x4xf32, #T14N4>, tensor<1x2x?x4xf32, #T12V4>, tensor<1x2x?x3xf32, #T12V3>)
  return %g#1 : tensor<1x2x?x4xf32, #T12V4>
}
// CHECK-LABEL: func.func @shift_tokens(
// CHECK: omnibal.shift_tokens {{.*}} {distance = 2 : i64, inverse}
func.func @shift_tokens(%x: tensor<1x?x3xf32, #T1N3>, %p: tensor<?xi32, #N>) -> tensor<1x?x3xf32, #T1N3> {
  %y = omnibal.shift_tokens %x, %p {distance = 2 : i64, inverse} : (tensor<1x?x3xf32, #T1N3>, tensor<?xi32, #N>) -> tensor<1x?x3xf32, #T1N3>
  return %y : tensor<1x?x3xf32, #T1N3>
}
// CHECK-LABEL: func.func @image_merge(
// CHECK: omnibal.image_merge 
func.func @image_merge(%x: tensor<1x?x3xf32, #T1N3>, %f: tensor<?x2x3xf32, #V23>, %r: tensor<?xi32, #N>) -> tensor<1x?x3xf32, #T1N3> {
  %y = omnibal.image_merge %x, %f, %r : (tensor<1x?x3xf32, #T1N3>, tensor<?x2x3xf32, #V23>, tensor<?xi32, #N>) -> tensor<1x?x3xf32, #T1N3>
  return %y : tensor<1x?x3xf32, #T1N3>
}

// CHECK-LABEL: func.func @cross_entropy(
// CHECK: omnibal.cross_entropy 
func.func @cross_entropy(%x: tensor<?x7xf32, affine_map<(d0, d1) -> (d1, 7)>>, %t: tensor<?xi32, #N>) -> tensor<?xf32, #N> {
  %y = omnibal.cross_entropy %x, %t : (tensor<?x7xf32, affine_map<(d0, d1) -> (d1, 7)>>, tensor<?xi32, #N>) -> tensor<?xf32, #N>
  return %y : tensor<?xf32, #N>
}

// CHECK-LABEL: func.func @shared_words(
// CHECK: omnibal.word_statistics 
// CHECK: omnibal.joined_cross_entropy 
// CHECK: omnibal.joined_cross_entropy_grad 
// CHECK: omnibal.joined_prediction 
func.func @shared_words(%h: tensor<?x3xf32, #N3>, %w: tensor<7x3xf32>, %b: tensor<7xf32>, %t: tensor<?xi32, #N>) {
  %s, %p = omnibal.word_statistics %h, %w, %b, %t {scale = 0.7 : f64, first = 2 : i64, words = 9 : i64, totals} : (tensor<?x3xf32, #N3>, tensor<7x3xf32>, tensor<7xf32>, tensor<?xi32, #N>) -> (tensor<1x?x4xf32, affine_map<(d0, d1) -> (1, d1, 4)>>, tensor<1x?xi32, affine_map<(d0, d1) -> (1, d1)>>)
  %l = omnibal.joined_cross_entropy %h, %w, %b, %t, %s {scale = 0.7 : f64, smoothing = 0.1 : f64, first = 2 : i64, words = 9 : i64} : (tensor<?x3xf32, #N3>, tensor<7x3xf32>, tensor<7xf32>, tensor<?xi32, #N>, tensor<1x?x4xf32, affine_map<(d0, d1) -> (1, d1, 4)>>) -> tensor<?xf32, #N>
  %g:3 = omnibal.joined_cross_entropy_grad %h, %w, %b, %t, %s, %l {scale = 0.7 : f64, smoothing = 0.1 : f64, first = 2 : i64, words = 9 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (tensor<?x3xf32, #N3>, tensor<7x3xf32>, tensor<7xf32>, tensor<?xi32, #N>, tensor<1x?x4xf32, affine_map<(d0, d1) -> (1, d1, 4)>>, tensor<?xf32, #N>) -> (tensor<?x3xf32, #N3>, tensor<7x3xf32>, tensor<7xf32>)
  %r = omnibal.joined_prediction %s, %p, %t : (tensor<1x?x4xf32, affine_map<(d0, d1) -> (1, d1, 4)>>, tensor<1x?xi32, affine_map<(d0, d1) -> (1, d1)>>, tensor<?xi32, #N>) -> tensor<?xi32, #N>
  return
}

// CHECK-LABEL: func.func @linear_cross_entropy(
// CHECK: omnibal.linear_cross_entropy 
func.func @linear_cross_entropy(%h: tensor<?x3xf32, #N3>, %w: tensor<7x3xf32>, %b: tensor<7xf32>, %t: tensor<?xi32, #N>) -> tensor<?xf32, #N> {
  %y = omnibal.linear_cross_entropy %h, %w, %b, %t {scale = 0.7 : f64} : (tensor<?x3xf32, #N3>, tensor<7x3xf32>, tensor<7xf32>, tensor<?xi32, #N>) -> tensor<?xf32, #N>
  return %y : tensor<?xf32, #N>
}

// CHECK-LABEL: func.func @floor_sign_is_nan(
// CHECK: omnibal.floor 
// CHECK: omnibal.sign 
// CHECK: omnibal.is_nan 
func.func @floor_sign_is_nan(%x: tensor<3xf32>) -> tensor<3xi1> {
  %a = omnibal.floor %x : (tensor<3xf32>) -> tensor<3xf32>
  %b = omnibal.sign %a : (tensor<3xf32>) -> tensor<3xf32>
  %c = omnibal.is_nan %b : (tensor<3xf32>) -> tensor<3xi1>
  return %c : tensor<3xi1>
}

// CHECK-LABEL: func.func @booleans(
// CHECK: omnibal.not 
// CHECK: omnibal.and 
// CHECK: omnibal.or 
// CHECK: omnibal.xor 
// CHECK: omnibal.mod 
// CHECK: omnibal.compare 
func.func @booleans(%x: tensor<3xi1>, %i: tensor<3xi64>) -> tensor<3xi1> {
  %a = omnibal.not %x : (tensor<3xi1>) -> tensor<3xi1>
  %b = omnibal.and %a, %x : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  %c = omnibal.or %a, %b : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  %d = omnibal.xor %c, %b : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  %m = omnibal.mod %i, %i {fmod} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %e = omnibal.compare %m, %i {predicate = 4 : i32} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  return %e : tensor<3xi1>
}

// CHECK-LABEL: func.func @random(
// CHECK: omnibal.random_uniform %{{.*}} {stream = 2 : i32} : (tensor<3x1xi32>, tensor<4xi32>, tensor<i32>) -> tensor<3x4xf32>
func.func @random(%key: tensor<3x1xi32>, %column: tensor<4xi32>, %layer: tensor<i32>) -> tensor<3x4xf32> {
  %a = omnibal.random_uniform %key, %column, %layer {stream = 2 : i32}
    : (tensor<3x1xi32>, tensor<4xi32>, tensor<i32>) -> tensor<3x4xf32>
  return %a : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @activation_gradients(
// CHECK: omnibal.silu_grad 
// CHECK: omnibal.quick_gelu_grad 
// CHECK: omnibal.gelu_grad 
func.func @activation_gradients(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = omnibal.silu_grad %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = omnibal.quick_gelu_grad %a, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = omnibal.gelu_grad %b, %x {tanh} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %c : tensor<3xf32>
}

// CHECK-LABEL: func.func @shapes(
// CHECK: omnibal.shape 
// CHECK: omnibal.size 
// CHECK: omnibal.range 
// CHECK: omnibal.nonzero 
func.func @shapes(%x: tensor<?x4xf32, #N4>) -> tensor<?xi64, #N> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %s = omnibal.shape %x {start = 0 : i64, end = -1 : i64} : (tensor<?x4xf32, #N4>) -> tensor<1xi64>
  %n = omnibal.size %x : (tensor<?x4xf32, #N4>) -> tensor<i64>
  %r = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #N>
  %z = omnibal.nonzero %s : (tensor<1xi64>) -> tensor<1x?xi64>
  return %r : tensor<?xi64, #N>
}

// CHECK-LABEL: func.func @weight_gradients(
// CHECK: omnibal.conv_input_grad 
// CHECK: omnibal.conv_weight_grad 
// CHECK: omnibal.linear_weight_grad 
// CHECK: omnibal.slice 
func.func @weight_gradients(%x: tensor<1x3x8xf32>, %g: tensor<1x4x7xf32>, %w: tensor<4x3x2xf32>) -> tensor<8x7xf32> {
  %a = omnibal.conv_input_grad %g, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x4x7xf32>, tensor<4x3x2xf32>) -> tensor<1x3x8xf32>
  %b = omnibal.conv_weight_grad %a, %g {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<1x4x7xf32>) -> tensor<4x3x2xf32>
  %y = omnibal.linear_weight_grad %x, %x {in_out} : (tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> tensor<8x8xf32>
  %z = omnibal.slice %y {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, begin = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<8x7xf32>
  return %z : tensor<8x7xf32>
}

// CHECK-LABEL: func.func @attention_gradient(
// CHECK: omnibal.attention_grad 
func.func @attention_gradient(%q: tensor<1x4x6x4xf32>, %k: tensor<1x2x6x4xf32>, %l: tensor<1x4x6xf32>, %c: tensor<3xi32>) -> tensor<1x2x6x4xf32> {
  %d:3 = omnibal.attention_grad %q, %k, %k, %q, %l, %q, %c {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>} : (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x4x6x4xf32>, tensor<1x4x6xf32>, tensor<1x4x6x4xf32>, tensor<3xi32>) -> (tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>)
  return %d#1 : tensor<1x2x6x4xf32>
}

// CHECK-LABEL: func.func @row_gradients(
// CHECK: omnibal.embedding_grad 
// CHECK: omnibal.image_merge_grad 
func.func @row_gradients(%g: tensor<5x3xf32>, %m: tensor<1x5x3xf32>, %i: tensor<5xi32>) -> tensor<9x3xf32> {
  %e = omnibal.embedding_grad %g, %i : (tensor<5x3xf32>, tensor<5xi32>) -> tensor<9x3xf32>
  %d:2 = omnibal.image_merge_grad %m, %i : (tensor<1x5x3xf32>, tensor<5xi32>) -> (tensor<1x5x3xf32>, tensor<2x3xf32>)
  return %e : tensor<9x3xf32>
}

// CHECK-LABEL: func.func @loss_gradients(
// CHECK: omnibal.cross_entropy_grad 
// CHECK: omnibal.linear_cross_entropy_grad 
func.func @loss_gradients(%h: tensor<?x4xf32, #N4>, %w: tensor<7x4xf32>, %b: tensor<7xf32>, %t: tensor<?xi32, #N>) -> tensor<?xf32, #N> {
  %a:2 = omnibal.cross_entropy_grad %h, %t : (tensor<?x4xf32, #N4>, tensor<?xi32, #N>) -> (tensor<?xf32, #N>, tensor<?x4xf32, #N4>)
  %c:4 = omnibal.linear_cross_entropy_grad %h, %w, %b, %t {scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<?x4xf32, #N4>, tensor<7x4xf32>, tensor<7xf32>, tensor<?xi32, #N>) -> (tensor<?xf32, #N>, tensor<?x4xf32, #N4>, tensor<7x4xf32>, tensor<7xf32>)
  return %c#0 : tensor<?xf32, #N>
}

// CHECK-LABEL: func.func @pairs_of_answers(
// CHECK: omnibal.preference_loss %{{.*}} {beta = 1.000000e-01 : f64} :
// CHECK: omnibal.preference_loss_grad %{{.*}} {beta = 1.000000e-01 : f64, smoothing = 2.000000e-01 : f64} :
// CHECK: omnibal.preference_loss_grad 
// CHECK: omnibal.linear_cross_entropy_grad 
func.func @pairs_of_answers(%l: tensor<?xf32, #N>, %c: tensor<?xi32, #CU>, %r: tensor<?xf32, #N>, %h: tensor<?x4xf32, #N4>, %w: tensor<7x4xf32>, %t: tensor<?xi32, #N>) -> tensor<?xf32, #N> {
  %y:4 = omnibal.preference_loss %l, %c, %r {beta = 0.1 : f64} : (tensor<?xf32, #N>, tensor<?xi32, #CU>, tensor<?xf32, #N>) -> (tensor<?xf32, #N>, tensor<?xf32, #N>, tensor<?xf32, #N>, tensor<?xf32, #N>)
  %d = omnibal.preference_loss_grad %l, %c, %r {beta = 0.1 : f64, smoothing = 0.2 : f64} : (tensor<?xf32, #N>, tensor<?xi32, #CU>, tensor<?xf32, #N>) -> tensor<?xf32, #N>
  %e = omnibal.preference_loss_grad %l, %c, %r, %d {beta = 0.1 : f64} : (tensor<?xf32, #N>, tensor<?xi32, #CU>, tensor<?xf32, #N>, tensor<?xf32, #N>) -> tensor<?xf32, #N>
  %g:3 = omnibal.linear_cross_entropy_grad %h, %w, %t, %e {operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>} : (tensor<?x4xf32, #N4>, tensor<7x4xf32>, tensor<?xi32, #N>, tensor<?xf32, #N>) -> (tensor<?xf32, #N>, tensor<?x4xf32, #N4>, tensor<7x4xf32>)
  return %y#0 : tensor<?xf32, #N>
}

// CHECK: omnibal.parameter @model.bias :
omnibal.parameter @"model.bias" : tensor<2xf32> {frozen, value = dense<1.0> : tensor<2xf32>}

// CHECK: omnibal.parameter @model.weight :
omnibal.parameter @"model.weight" : tensor<2x3xf32> {file = "model.safetensors", length = 24 : i64, offset = 128 : i64, transposed}

// CHECK-LABEL: func.func @values(
// CHECK: omnibal.get_parameter 
// CHECK: omnibal.batch_value 
func.func @values() -> tensor<?xi32, #N> {
  %p = omnibal.get_parameter @"model.weight" : tensor<2x3xf32>
  %b = omnibal.batch_value "positions" : tensor<?xi32, #N>
  return %b : tensor<?xi32, #N>
}

// CHECK-LABEL: func.func @reshard(
// CHECK: omnibal.reshard %{{.*}} from <split(1 : 4 x 3)> to <copied> parts 3 of tensor<2x24xf32> : (tensor<2x6xf32>) -> tensor<2x24xf32>
// CHECK: omnibal.reshard %{{.*}} from <partial> to <split(0 : 2)> parts 3 of tensor<2x24xf32> : (tensor<2x24xf32>) -> tensor<0x24xf32>
// CHECK: omnibal.reshard %{{.*}} from <whole> to <copied> parts 2 of tensor<3xi32>
func.func @reshard(%x: tensor<2x6xf32>, %i: tensor<3xi32>) -> tensor<0x24xf32> {
  %y = omnibal.reshard %x from <split(1 : 4 x 3)> to <copied> parts 3 of tensor<2x24xf32> : (tensor<2x6xf32>) -> tensor<2x24xf32>
  %z = omnibal.reshard %y from <partial> to <split(0 : 2)> parts 3 of tensor<2x24xf32> : (tensor<2x24xf32>) -> tensor<0x24xf32>
  %j = omnibal.reshard %i from <whole> to <copied> parts 2 of tensor<3xi32> : (tensor<3xi32>) -> tensor<3xi32>
  return %z : tensor<0x24xf32>
}

// CHECK-LABEL: func.func @layouts(
// CHECK-SAME: a = [#plan.layout<whole>, #plan.layout<split(0 : V x 17)>, #plan.layout<split(1 : N)>, #plan.layout<split(2 : 25 x 64)>]
func.func @layouts() attributes {a = [#plan.layout<whole>, #plan.layout<split(0 : V x 17)>, #plan.layout<split(1 : N)>, #plan.layout<split(2 : 25 x 64)>]} {
  return
}

// CHECK-LABEL: func.func @dropout(
// CHECK: omnibal.dropout %{{.*}} {ratio = 1.250000e-01 : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
func.func @dropout(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %a = omnibal.dropout %x {ratio = 0.125 : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %a : tensor<3x4xf32>
}
