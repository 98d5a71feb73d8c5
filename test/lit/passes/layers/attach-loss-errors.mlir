// RUN: omnibal-opt %s --split-input-file --omnibal-attach-loss --verify-diagnostics

// expected-error @below {{omnibal-attach-loss: the module has no function @main of one block}}
module {}

// -----

// expected-error @below {{@main still has arguments; run omnibal-raise and omnibal-form-layers first}}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{lies outside every layer; omnibal-attach-loss needs omnibal-form-layers to have run}}
  %x = omnibal.constant dense<1.0> : tensor<2xf32>
  return %x : tensor<2xf32>
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{is the last layer but not the head}}
  %a = omnibal.layer "last" vision inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{omnibal-attach-loss needs logits [1, N, vocabulary]}}
  %a = omnibal.layer "head" head inputs() parameters() : () -> tensor<2xf32> {
    %0 = omnibal.constant dense<1.0> : tensor<2xf32>
    omnibal.yield %0 : tensor<2xf32>
  }
  return %a : tensor<2xf32>
}
