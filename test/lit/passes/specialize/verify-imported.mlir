// One module a constraint: everything but the line that is wrong is valid.
// RUN: omnibal-opt %s --split-input-file --omnibal-verify-imported --verify-diagnostics

// Valid: no diagnostics.
omnibal.parameter @w : tensor<2x2xf32>
func.func @main(%x: tensor<?x2xf32> {omnibal.input = "x", omnibal.dims = ["rows", ""]}) -> (tensor<?x2xf32> {omnibal.output = "y"}) {
  %w = omnibal.get_parameter @w : tensor<2x2xf32>
  %y = omnibal.matmul %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}

// -----

// expected-error @below {{imported_c1: the module has no function @main of one block}}
module {
  func.func @other() {
    return
  }
}

// -----

func.func @main() {
  return
}
// expected-error @below {{imported_c1: is neither a function nor a parameter}}
module {}

// -----

// expected-error @below {{imported_c2: argument 1 needs an omnibal.input that no other has}}
func.func @main(%x: tensor<2xf32> {omnibal.input = "x"}, %y: tensor<2xf32> {omnibal.input = "x"}) {
  return
}

// -----

// expected-error @below {{imported_c2: result 0 needs an omnibal.output that no other has}}
func.func @main(%x: tensor<2xf32> {omnibal.input = "x"}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

// expected-error @below {{imported_c3: omnibal.dims of argument 0 names 1 dimensions of 'tensor<?x2xf32>'}}
func.func @main(%x: tensor<?x2xf32> {omnibal.input = "x", omnibal.dims = ["rows"]}) {
  return
}

// -----

#n = affine_map<(d0, d1) -> (d1)>
// expected-error @below {{imported_c4: has an argument of type 'tensor<?xf32, affine_map<(d0, d1) -> (d1)>>'}}
func.func @main(%x: tensor<?xf32, #n> {omnibal.input = "x"}) {
  return
}

// -----

#n = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<?xf32> {omnibal.input = "x"}) {
  // expected-error @below {{imported_c4: has a result of type 'tensor<?xf32, affine_map<(d0, d1) -> (d1)>>'}}
  %y = omnibal.neg %x : (tensor<?xf32>) -> tensor<?xf32, #n>
  return
}

// -----

func.func @main() {
  // expected-error @below {{imported_c5: there is no omnibal.parameter @w}}
  %w = omnibal.get_parameter @w : tensor<2xf32>
  return
}

// -----

// expected-note @below {{the parameter}}
omnibal.parameter @w : tensor<3xf32>
func.func @main() {
  // expected-error @below {{imported_c5: is 'tensor<2xf32>', the parameter 'tensor<3xf32>'}}
  %w = omnibal.get_parameter @w : tensor<2xf32>
  return
}

// -----

func.func @main() {
  // expected-error @below {{imported_c6: is an op of a later form}}
  %ids = omnibal.batch_value "input_ids" : tensor<4xi32>
  return
}
