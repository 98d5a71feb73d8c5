// RUN: omnibal-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{layer_c1: argument 0 of the body is 'tensor<3xf32>', the operand is 'tensor<2xf32>'}}
  omnibal.layer "a" vision inputs(%x) parameters() : (tensor<2xf32>) -> () {
  ^bb0(%0: tensor<3xf32>):
    omnibal.yield
  }
  return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{layer_c1: the body has 0 arguments, but the layer 1 inputs and parameters}}
  omnibal.layer "a" vision inputs(%x) parameters() : (tensor<2xf32>) -> () {
    omnibal.yield
  }
  return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{layer_c2: the yielded values must have the types of the 0 outputs}}
  omnibal.layer "a" vision inputs(%x) parameters() : (tensor<2xf32>) -> () {
  ^bb0(%0: tensor<2xf32>):
    omnibal.yield %0 : tensor<2xf32>
  }
  return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{layer_c3: parameter 0 must be the result of omnibal.get_parameter}}
  omnibal.layer "a" vision inputs() parameters(%x) : (tensor<2xf32>) -> () {
  ^bb0(%0: tensor<2xf32>):
    omnibal.yield
  }
  return
}

// -----

func.func @main() {
  // expected-error @below {{layer_c4: omnibal.remat is "half"; known are "keep", "selective-1", "selective-2" ... and "full"}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.remat = "half"} : () -> () {
    omnibal.yield
  }
  return
}

// -----

func.func @main() {
  // expected-error @below {{layer_c4: omnibal.chunk must be an i64 >= 0, not -1 : i64}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.chunk = -1 : i64} : () -> () {
    omnibal.yield
  }
  return
}

// -----

func.func @main() {
  // expected-error @below {{layer_c5: omnibal.outputs must be a list of 0 names, one an output}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.outputs = ["loss"]} : () -> () {
    omnibal.yield
  }
  return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{layer_c5: omnibal.outputs holds "logits"; known are "output", "loss" and "prediction"}}
  %y = omnibal.layer "a" vision inputs(%x) parameters() attributes {omnibal.outputs = ["logits"]} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%0: tensor<2xf32>):
    omnibal.yield %0 : tensor<2xf32>
  }
  return
}

// -----

func.func private @f()
// expected-error @below {{layer_fn_c1: @f is not a function with a body}}
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)

// -----

func.func @f() { return }
// expected-error @below {{layer_fn_c2: has input_grad or weight_grad but no backward}}
omnibal.layer_fn @l forward(@f) input_grad(@f) evaluate(@f) inference(@f)

// -----

func.func @main() {
  // expected-error @below {{call_layer_c1: @l is not an omnibal.layer_fn}}
  omnibal.call_layer "a" vision @l inputs() parameters [] : () -> ()
  return
}

// -----

func.func @f() { return }
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)
func.func @main() {
  // expected-error @below {{call_layer_c2: @p is not an omnibal.parameter}}
  omnibal.call_layer "a" vision @l inputs() parameters [@p] : () -> ()
  return
}

// -----

// expected-note @below {{the function}}
func.func @f(%x: tensor<3xf32> {omnibal.role = "input", omnibal.index = 0 : i64}) { return }
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)
func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{call_layer_c3: input 0 of @f is 'tensor<3xf32>', the call gives 'tensor<2xf32>'}}
  omnibal.call_layer "a" vision @l inputs(%x) parameters [] : (tensor<2xf32>) -> ()
  return
}

// -----

// expected-note @below {{the function}}
func.func @f(%x: tensor<3xf32> {omnibal.role = "parameter", omnibal.index = 1 : i64}) { return }
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)
func.func @main() {
  // expected-error @below {{call_layer_c3: @f needs parameter 1, the call has 0}}
  omnibal.call_layer "a" vision @l inputs() parameters [] : () -> ()
  return
}

// -----

func.func @f() { return }
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)
func.func @main() {
  // expected-error @below {{call_layer_c4: omnibal.chunk must be an i64 >= 0, not 1 : i32}}
  omnibal.call_layer "a" vision @l inputs() parameters [] {omnibal.chunk = 1 : i32} : () -> ()
  return
}

// -----

func.func @f() { return }
omnibal.layer_fn @l forward(@f) evaluate(@f) inference(@f)
func.func @main() {
  // expected-error @below {{call_layer_c5: omnibal.outputs must be a list of 0 names, one an output}}
  omnibal.call_layer "a" vision @l inputs() parameters [] {omnibal.outputs = ["output"]} : () -> ()
  return
}
