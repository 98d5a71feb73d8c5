// RUN: omnibal-opt %s --split-input-file --omnibal-verify-functions --verify-diagnostics

// Valid: no diagnostics.
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
// expected-error @below {{function_c1: argument 0 needs omnibal.index >= 0 and an omnibal.role that a forward function may have there}}
func.func @body.forward(%0: tensor<2xf32> ) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
// expected-error @below {{function_c1: result 0 needs omnibal.index >= 0 and an omnibal.role that a backward function may have there}}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
// expected-error @below {{function_c2: result 2 repeats "saved" 0}}
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
// expected-error @below {{function_c3: argument 1 is out of order; inputs come first, then parameters}}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{function_c3: @head.inference takes 1 values, the call has 2 inputs and parameters}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
// expected-note @below {{the function}}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
// expected-error @below {{function_c4: forward saves 0 values, backward reads 1; numbers and types must agree}}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c5: @body.forward does not yield output 0}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
// expected-note @below {{the function}}
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0 : tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{function_c5: @head.evaluate does not yield loss 0}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
// expected-note @below {{the function}}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

// Found by the op itself already.
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{call_layer_c3: @head.backward needs input 1, the call has 1}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-note @below {{the function}}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}, %2: tensor<3xf32> {omnibal.index = 1 : i64, omnibal.role = "input"}) -> (tensor<3xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %2, %1, %0 : tensor<3xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c6: grad_output 0 of @body.backward is 'tensor<3xf32>', the call has 'tensor<2xf32>'}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
// expected-note @below {{the function}}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<3xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c7: @body.backward reads the gradient of output 0, which no call below gives}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
// expected-note @below {{the function}}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %1, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32> {frozen}
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c8: parameter @p is frozen but gets a gradient}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{function_c8: parameter @q trains but gets no gradient}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{function_c9: no backward yields the loss}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
// expected-error @below {{function_c9: needs exactly one loss, has 0}}
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}

// -----

// Valid, in halves: no diagnostics.
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) input_grad(@head.input) weight_grad(@head.weight) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.input(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "held"}) {
  return %0, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.weight(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "held"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0 : tensor<2xf32>
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
// expected-error @below {{function_c10: both halves yield parameter_grad 0}}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) input_grad(@head.backward) weight_grad(@head.weight) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.weight(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0 : tensor<2xf32>
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
// expected-error @below {{function_c10: input_grad holds 1 values, weight_grad takes 0; numbers and types must agree}}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) input_grad(@head.input) weight_grad(@head.weight) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.input(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "held"}) {
  return %0, %0, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.weight(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0 : tensor<2xf32>
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
// expected-error @below {{function_c10: the halves yield 2 values, backward yields 3}}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) input_grad(@head.input) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.input(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
// expected-error @below {{function_c10: a half reads saved 0, which backward does not}}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) input_grad(@head.input) weight_grad(@head.weight) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.input(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @head.weight(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %0 : tensor<2xf32>
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved", omnibal.float32}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
// expected-error @below {{function_c11: saved 0 may be stored in bfloat16, in another function of the layer it stays in float32}}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-note @below {{the call that makes it}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  // expected-error @below {{function_c11: input 0 may be stored in bfloat16 here, as an output of body it stays in float32}}
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output", omnibal.float32}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output", omnibal.float32}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output", omnibal.float32}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// -----

omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
// expected-error @below {{function_c11: parameter 0 is no float32 activation, so `omnibal.float32` has no meaning on it}}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter", omnibal.float32}) {
  return
}
func.func @head.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_input"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @head.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "loss"}) {
  return %0 : tensor<2xf32>
}
func.func @head.inference(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
