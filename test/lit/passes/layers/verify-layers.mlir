// One module a constraint: everything but the line that is wrong is valid.
// RUN: omnibal-opt %s --split-input-file --omnibal-verify-layers --verify-diagnostics
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-verify-layers --omnibal-attach-loss --omnibal-verify-layers -o %t

// Valid: no diagnostics.
omnibal.parameter @w : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %w = omnibal.get_parameter @w : tensor<2xf32>
  %a = omnibal.layer "language.embedding" language inputs() parameters(%w) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%p: tensor<2xf32>):
    omnibal.yield %p : tensor<2xf32>
  }
  %b = omnibal.layer "language.layers.0" language inputs(%a) parameters() : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  %c = omnibal.layer "head" head inputs(%b) parameters() : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  return %c : tensor<2xf32>
}

// -----

// expected-error @below {{layers_c1: the module has no function @main of one block and without arguments}}
module {
  func.func @main(%x: tensor<2xf32>) {
    return
  }
}

// -----

func.func @main() {
  // expected-error @below {{layers_c1: stands outside every layer}}
  %a = omnibal.constant dense<1.0> : tensor<2xf32>
  return
}

// -----

func.func @main() {
  // expected-error @below {{layers_c2: there is no omnibal.parameter @w}}
  %w = omnibal.get_parameter @w : tensor<2xf32>
  return
}

// -----

// expected-note @below {{the parameter}}
omnibal.parameter @w : tensor<3xf32>
func.func @main() {
  // expected-error @below {{layers_c2: is 'tensor<2xf32>', the parameter 'tensor<3xf32>'}}
  %w = omnibal.get_parameter @w : tensor<2xf32>
  return
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{layers_c3: "tower" is no name of a layer at this place}}
  %a = omnibal.layer "tower" vision inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}

// -----

// The second block has the number 2.
func.func @main() -> tensor<2xf32> {
  // expected-note @below {{the layer before is "language.layers.0"}}
  %a = omnibal.layer "language.layers.0" language inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  // expected-error @below {{layers_c3: "language.layers.2" is no name of a layer at this place}}
  %b = omnibal.layer "language.layers.2" language inputs(%a) parameters() : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  return %b : tensor<2xf32>
}

// -----

// The projector comes after the language model.
func.func @main() -> tensor<2xf32> {
  // expected-note @below {{the layer before is "language.embedding"}}
  %a = omnibal.layer "language.embedding" language inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  // expected-error @below {{layers_c3: "projector" is no name of a layer at this place}}
  %b = omnibal.layer "projector" projector inputs(%a) parameters() : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  return %b : tensor<2xf32>
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{layers_c4: "head" has the kind language}}
  %a = omnibal.layer "head" language inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}

// -----

func.func @main() -> tensor<2xf32> {
  %a = omnibal.layer "language.embedding" language inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  // expected-error @below {{layers_c5: no head comes before the return}}
  return %a : tensor<2xf32>
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-note @below {{the value is made here}}
  %a = omnibal.layer "language.embedding" language inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  omnibal.layer "head" head inputs(%a) parameters() : (tensor<2xf32>) -> () {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield
  }
  // expected-error @below {{layers_c5: returns what the head does not make}}
  return %a : tensor<2xf32>
}

// -----

func.func @main() {
  // expected-error @below {{layers_c6: nothing reads output 0}}
  %a = omnibal.layer "head" head inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return
}

// -----

func.func @main() -> tensor<?xf32> {
  // expected-error @below {{layers_c7: 'tensor<?xf32>' is not a function of V and N}}
  %a = omnibal.layer "head" head inputs() parameters() : () -> tensor<?xf32> {
    %0 = omnibal.batch_value "x" : tensor<?xf32>
    omnibal.yield %0 : tensor<?xf32>
  }
  return %a : tensor<?xf32>
}

// -----

omnibal.parameter @w : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-note @below {{the layer "head"}}
  %a = omnibal.layer "head" head inputs() parameters() : () -> tensor<2xf32> {
    // expected-error @below {{layers_c8: stands inside a layer; what it gives must be an argument}}
    %0 = omnibal.get_parameter @w : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}
