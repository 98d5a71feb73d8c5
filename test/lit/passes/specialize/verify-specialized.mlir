// One module a constraint: everything but the line that is wrong is valid.
// RUN: omnibal-opt %s --split-input-file --omnibal-verify-specialized --verify-diagnostics

#n = affine_map<(d0, d1) -> (1, d1)>
#n2 = affine_map<(d0, d1) -> (d1, 2)>
!x = tensor<1x?xf32, #n>
!rows = tensor<?x2xf32, #n2>

// Valid: no diagnostics. What follows from the nonzero has no known type up to the scatter.
func.func @main(%x: !x, %rows: !rows, %mask: tensor<4xi1>, %update: tensor<?x2xf32, #n2>) -> !rows {
  %where = omnibal.nonzero %mask : (tensor<4xi1>) -> tensor<1x?xi64>
  %places = omnibal.transpose %where {permutation = array<i64: 1, 0>} : (tensor<1x?xi64>) -> tensor<?x1xi64>
  %y = omnibal.scatter_nd %rows, %places, %update {reduction = "none"} : (!rows, tensor<?x1xi64>, !rows) -> !rows
  return %y : !rows
}

// -----

// expected-error @below {{specialized_c1: argument 0 is 'tensor<?xf32>', which is not a function of V and N}}
func.func @main(%x: tensor<?xf32>) {
  return
}

// -----

#n = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<?xf32, #n>) -> tensor<?xf32> {
  // expected-error @below {{specialized_c1: has a result of type 'tensor<?xf32>', which is not a function of V and N}}
  %y = omnibal.neg %x : (tensor<?xf32, #n>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// expected-error @below {{specialized_c1: returns 'tensor<1x?xi64>', which is not a function of V and N}}
func.func @main(%mask: tensor<4xi1>) -> tensor<1x?xi64> {
  // expected-note @below {{the value is made here}}
  %where = omnibal.nonzero %mask : (tensor<4xi1>) -> tensor<1x?xi64>
  return %where : tensor<1x?xi64>
}

// -----

func.func @main(%x: tensor<1x4xf32>) -> tensor<4xf32> {
  // expected-error @below {{specialized_c2: is a reshape or an expand in form S}}
  %y = omnibal.squeeze %x : (tensor<1x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<1x4xf32>) -> tensor<4xf32> {
  %shape = omnibal.constant dense<4> : tensor<1xi64>
  // expected-error @below {{specialized_c3: has an operand that says what its attributes and result types must say}}
  %y = omnibal.reshape %x, %shape : (tensor<1x4xf32>, tensor<1xi64>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{specialized_c4: is unused}}
  %y = omnibal.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
