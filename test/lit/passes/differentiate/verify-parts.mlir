// RUN: omnibal-opt %s --omnibal-verify-functions --split-input-file --verify-diagnostics

// What the functions of the parts of a stage must agree in.

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body, @other]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @other forward(@other.forward) backward(@other.backward) evaluate(@other.evaluate) inference(@other.evaluate)
func.func @other.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @other.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @other.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}

// -----

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body, @other]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  %m = omnibal.reshard %0 from <partial> to <whole> parts 2 of tensor<2xf32> : (tensor<2xf32>) -> tensor<2xf32>
  return %m, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @other forward(@other.forward) backward(@other.backward) evaluate(@other.evaluate) inference(@other.evaluate)
func.func @other.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  %m = omnibal.reshard %0 from <partial> to <whole> parts 2 of tensor<2xf32> : (tensor<2xf32>) -> tensor<2xf32>
  return %m, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @other.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @other.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}

// -----

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c12: omnibal.callees needs a layer_fn for each of 2 parts}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}

// -----

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c12: omnibal.callees needs a layer_fn for each of 2 parts}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body, @body.forward]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}

// -----

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32> {omnibal.held = #plan.layout<split(0 : 2)>}
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c12: parameter 0 of @body.forward is no 'tensor<1xf32>', which part 0 of 2 holds}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body, @body]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
// expected-note @below {{the function}}
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}

// -----

module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 1, replica_bytes_per_s = 1, parts = 2>} {
omnibal.parameter @p : tensor<2xf32>
omnibal.parameter @q : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // expected-error @below {{function_c13: @other.forward makes other moves than part 0 does}}
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.callees = [@body, @other]} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@q] {omnibal.outputs = ["loss"]} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) backward(@body.backward) evaluate(@body.evaluate) inference(@body.evaluate)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  return %0, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @body.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @body.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @other forward(@other.forward) backward(@other.backward) evaluate(@other.evaluate) inference(@other.evaluate)
// expected-note @below {{the function}}
func.func @other.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}, tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}) {
  %m = omnibal.reshard %0 from <partial> to <whole> parts 2 of tensor<2xf32> : (tensor<2xf32>) -> tensor<2xf32>
  return %m, %0 : tensor<2xf32>, tensor<2xf32>
}
func.func @other.backward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "saved"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "grad_output"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter_grad"}) {
  return %1 : tensor<2xf32>
}
func.func @other.evaluate(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
omnibal.layer_fn @head forward(@head.forward) backward(@head.backward) evaluate(@head.evaluate) inference(@head.inference)
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
}
