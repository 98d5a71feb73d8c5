// One module a constraint: everything but the line that is wrong is valid.
// RUN: omnibal-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{cost_c1: nanoseconds and bytes of a cost must be >= 0}}
module attributes {some = #plan.cost<forward = -1, input_grad = 0, weight_grad = 0, outputs = [], gradients = [], options = [#plan.option<name = "keep", saved = 0, recompute = 0, workspace = 0>]>} {}

// -----

func.func @main() {
  // expected-error @below {{cost_c2: omnibal.cost must be a #plan.cost, not 3}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.cost = 3 : i64} : () -> () {
    omnibal.yield
  }
  return
}

// -----

// expected-error @below {{cost_c3: "keep" comes first, and every name once}}
module attributes {some = #plan.cost<forward = 1, input_grad = 0, weight_grad = 0, outputs = [], gradients = [], options = [#plan.option<name = "full", saved = 0, recompute = 0, workspace = 0>]>} {}

// -----

// expected-error @below {{cost_c3: a layer has at least the option "keep"}}
module attributes {some = #plan.cost<forward = 1, input_grad = 0, weight_grad = 0, outputs = [], gradients = [], options = []>} {}

// -----

// expected-error @below {{cost_c3: options are #plan.option, not 1 : i64}}
module attributes {some = #plan.cost<forward = 1, input_grad = 0, weight_grad = 0, outputs = [], gradients = [], options = [1 : i64]>} {}

// -----

func.func @main() {
  // expected-error @below {{cost_c4: omnibal.cost must state bytes of 0 outputs and of their gradients}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.cost = #plan.cost<forward = 1, input_grad = 0, weight_grad = 0, outputs = [8], gradients = [8], options = [#plan.option<name = "keep", saved = 0, recompute = 0, workspace = 0>]>} : () -> () {
    omnibal.yield
  }
  return
}

// -----

// expected-error @below {{option_c1: an option has a name; nanoseconds and bytes are >= 0}}
module attributes {some = #plan.option<name = "keep", saved = -1, recompute = 0, workspace = 0>} {}

// -----

// expected-error @below {{formal_c1: bytes of a formal must be >= 0}}
module attributes {some = #plan.formal<role = batch, name = "ids", bytes = -1>} {}

// -----

// expected-error @below {{function_buffers_c1: bytes are >= 0, and formals are #plan.formal}}
module attributes {some = #plan.function<workspace = 0, formals = [3 : i64]>} {}

// -----

// expected-error @below {{buffers_c1: bytes of outputs are >= 0, and options are #plan.functions}}
module attributes {some = #plan.buffers<outputs = [8], evaluate = <workspace = 0, formals = []>, inference = <workspace = 0, formals = []>, options = {keep = 1 : i64}>} {}

// -----

func.func @main() {
  // expected-error @below {{buffers_c2: omnibal.buffers must state bytes of 0 outputs}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.buffers = #plan.buffers<outputs = [8], evaluate = <workspace = 0, formals = []>, inference = <workspace = 0, formals = []>, options = {}>} : () -> () {
    omnibal.yield
  }
  return
}

// -----

func.func @main() {
  // expected-error @below {{buffers_c2: omnibal.buffers lacks option "keep" of omnibal.cost}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.buffers = #plan.buffers<outputs = [], evaluate = <workspace = 0, formals = []>, inference = <workspace = 0, formals = []>, options = {}>, omnibal.cost = #plan.cost<forward = 1, input_grad = 1, weight_grad = 1, outputs = [], gradients = [], options = [#plan.option<name = "keep", saved = 0, recompute = 0, workspace = 0>]>} : () -> () {
    omnibal.yield
  }
  return
}

// -----

// expected-error @below {{load_c1: the factor of language must be a number >= 0 of ten-thousandths}}
module attributes {some = #plan.load<language = -1>} {}

// -----

// expected-error @below {{the factor of language comes twice}}
module attributes {some = #plan.load<language = 1, language = 2>} {}

// -----

// expected-error @below {{expected one of [forward, backward, input_grad, weight_grad] for part of a chunk's work on a micro-batch, got: sideways}}
module attributes {some = #plan.actions<sideways(0, 0)>} {}

// -----

func.func @main() {
  // expected-error @below {{buffers_c2: omnibal.buffers must be a #plan.buffers, not 3}}
  omnibal.layer "a" vision inputs() parameters() attributes {omnibal.buffers = 3 : i64} : () -> () {
    omnibal.yield
  }
  return
}

// -----

// expected-error @below {{parameter_cost_c1: bytes of a parameter must be >= 0}}
module attributes {some = #plan.parameter<resident = -4, reduced = 0>} {}

// -----

// expected-error @below {{parameter_cost_c2: gradient and state are part of what is resident, and what has no gradient has no state}}
module attributes {some = #plan.parameter<resident = 16, reduced = 0, state = 8>} {}

// -----

// expected-error @below {{parameter_cost_c2: gradient and state are part of what is resident, and what has no gradient has no state}}
module attributes {some = #plan.parameter<resident = 8, reduced = 4, state = 8>} {}

// -----

// expected-error @below {{cluster_c1: stages, data_parallel and bytes/s must be >= 1, latencies >= 0}}
module attributes {omnibal.cluster = #plan.cluster<stages = 0, memory = [1], latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 0, replica_bytes_per_s = 1>} {}

// -----

// expected-error @below {{cluster_c2: memory is one number >= 0, or one a stage (3), not 2}}
module attributes {omnibal.cluster = #plan.cluster<stages = 3, memory = [1, 2], latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 0, replica_bytes_per_s = 1>} {}

// -----

// expected-error @below {{train_mode_c1: number, tiles and steps must be >= 0, tokens, microbatches and degree >= 1}}
module attributes {omnibal.train_mode = #plan.train_mode<number = 0, name = "a", tiles = 1, tokens = 0, microbatches = 1, steps = 0, schedule = "1f1b", remat = "auto">} {}

// -----

// expected-error @below {{train_mode_c2: options are strings, one a layer}}
module attributes {omnibal.train_mode = #plan.train_mode<number = 0, name = "a", tiles = 1, tokens = 8, microbatches = 1, steps = 0, schedule = "1f1b", remat = "auto", options = [1]>} {}

// -----

// expected-error @below {{cluster_c3: zero is 1; it must be 0 or, with data_parallel of at least 2, 1}}
module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 0, replica_bytes_per_s = 1, zero = 1>} {}

// -----

// expected-error @below {{pipeline_c5: zero is 2; it must be 0 or, with data_parallel of at least 2, 1}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 1, microbatches = 1, data_parallel = 2, zero = 2, chunk_stages = [0]>} {}

// -----

// expected-error @below {{pipeline_c1: stages, microbatches and data_parallel must be >= 1}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 1, microbatches = 0, data_parallel = 1, chunk_stages = [0]>} {}

// -----

// expected-error @below {{pipeline_c2: chunk 1 is on stage 2, but there are 2 stages}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 2]>} {}

// -----

// expected-error @below {{pipeline_c2: 1 of 2 stages have a chunk}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 0]>} {}

// -----

// expected-error @below {{pipeline_c3: actions has 1 lists for 2 stages}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>]>} {}

// -----

// expected-error @below {{actions_c1: forward(0, -1) has a micro-batch or a chunk outside 0 to 2147483647}}
module attributes {some = #plan.actions<forward(0, 0), forward(0, -1)>} {}

// -----

// expected-error @below {{pipeline_c4: forward(0, 0) of stage 1 is of a chunk that is not on this stage}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>, <forward(0, 0), backward(0, 1)>]>} {}

// -----

// expected-error @below {{pipeline_c4: forward(1, 1) of stage 1 is of a micro-batch that does not exist}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>, <forward(1, 1), backward(1, 1)>]>} {}

// -----

// expected-error @below {{pipeline_c4: weight_grad(0, 1) of stage 1 runs a second time or too early}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>, <forward(0, 1), weight_grad(0, 1), input_grad(0, 1)>]>} {}

// -----

// expected-error @below {{pipeline_c4: chunk 1 ends with the input_grad of micro-batch 0, not with its backward or weight_grad}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 1, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>, <forward(0, 1), input_grad(0, 1)>]>} {}

// -----

// expected-error @below {{pipeline_c4: actions run 3 of 2 chunks x 2 micro-batches}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "auto", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1], actions = [<forward(0, 0), backward(0, 0)>, <forward(0, 1), backward(0, 1), forward(1, 1), backward(1, 1)>]>} {}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-error @below {{transfer_c1: chunks 0 and 2 are not on two stages of omnibal.plan}}
omnibal.transfer @there activation id 0 from 0 to 2 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-error @below {{transfer_c2: has 1 layers and 2 outputs}}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0, 1]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-error @below {{transfer_c3: output 1 of "body" is not made in chunk 0 and read in chunk 1}}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [1]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-error @below {{transfer_c3: output 0 of "body" is not made in chunk 1 and read in chunk 0}}
omnibal.transfer @there gradient id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
// expected-error @below {{transfer_c4: @again also has id 0}}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
// expected-note @below {{the other message}}
omnibal.transfer @again activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c1: is not an action of a stage}}
  %0 = omnibal.get_parameter @p : tensor<2xf32>
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c2: @there of micro-batch 0 has not been started}}
  omnibal.wait_send @there microbatch 0
  omnibal.send @there microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c2: is never awaited}}
  omnibal.send @there microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-note @below {{it starts here}}
  omnibal.post_recv @back microbatch 0
  // expected-error @below {{stage_c2: @back of micro-batch 0 starts a second time}}
  omnibal.post_recv @back microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c3: backward of chunk 0, micro-batch 0 runs too early}}
  omnibal.run backward chunk 0 microbatch 0
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c3: forward of chunk 0, micro-batch 0 runs a second time}}
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  omnibal.run backward chunk 0 microbatch 0
  // expected-error @below {{stage_c3: input_grad of chunk 0, micro-batch 0 runs a second time}}
  omnibal.run input_grad chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c3: weight_grad of chunk 0, micro-batch 0 runs too early}}
  omnibal.run weight_grad chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  omnibal.update_parameters
  // expected-error @below {{stage_c4: comes after omnibal.update_parameters}}
  omnibal.run backward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.reduce_scalars
  // expected-error @below {{stage_c4: comes after omnibal.reduce_scalars}}
  omnibal.reduce_gradients
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.gather_parameters
  // expected-error @below {{stage_c4: comes after omnibal.gather_parameters}}
  omnibal.scatter_gradients
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.reduce_scalars
  // expected-error @below {{stage_c4: comes after omnibal.reduce_scalars}}
  omnibal.reduce_scalars
}
}

// -----

module {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}

// expected-error @below {{stage_c5: the module has no omnibal.plan}}
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
// expected-error @below {{stage_c5: stage 2 of 2}}
omnibal.stage @stage_0 index 2 {

}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
// expected-error @below {{stage_c5: @stage_0 also is stage 0 in mode train}}
omnibal.stage @other index 0 {
}
// expected-note @below {{the other stage}}
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c5: chunk 1 is not on stage 0 of omnibal.plan}}
  omnibal.run forward chunk 1 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c5: micro-batch 2 of 2}}
  omnibal.run forward chunk 0 microbatch 2
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c6: @nowhere is not an omnibal.transfer}}
  omnibal.post_recv @nowhere microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c6: stage 0 does not receive @there}}
  omnibal.post_recv @there microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c7: the values of @there are not made yet}}
  omnibal.send @there microbatch 0
  omnibal.run forward chunk 0 microbatch 0
  omnibal.wait_send @there microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  omnibal.run forward chunk 0 microbatch 0
  omnibal.post_recv @back microbatch 0
  omnibal.run backward chunk 0 microbatch 0
  // expected-error @below {{stage_c7: the values of @back have been read already}}
  omnibal.wait_recv @back microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @stage_0 index 0 {
  // expected-error @below {{stage_c8: @q is not a parameter that trains}}
  omnibal.reduce_shared @q
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @evaluate_0 index 0 mode evaluate {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c9: mode evaluate has forward runs and messages only}}
  omnibal.run backward chunk 0 microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @evaluate_0 index 0 mode evaluate {
  // expected-error @below {{stage_c9: mode evaluate has forward runs and messages only}}
  omnibal.reduce_scalars
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @evaluate_0 index 0 mode evaluate {
  // expected-error @below {{stage_c9: @back is a gradient, in mode evaluate}}
  omnibal.post_recv @back microbatch 0
}
}

// -----

module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 2, data_parallel = 1, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.chunk = 0 : i64} : () -> tensor<2xf32>
  %l = omnibal.call_layer "head" head @head inputs(%x) parameters [@p] {omnibal.chunk = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %l : tensor<2xf32>
}
omnibal.layer_fn @body forward(@body.forward) evaluate(@body.forward) inference(@body.forward)
omnibal.layer_fn @head forward(@head.forward) evaluate(@head.forward) inference(@head.forward)
func.func @body.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) -> (tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "output"}) {
  return %0 : tensor<2xf32>
}
func.func @head.forward(%0: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "input"}, %1: tensor<2xf32> {omnibal.index = 0 : i64, omnibal.role = "parameter"}) {
  return
}
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.stage @inference_0 index 0 mode inference {
  omnibal.run forward chunk 0 microbatch 0
  // expected-error @below {{stage_c9: mode inference has micro-batch 0 only}}
  omnibal.run forward chunk 0 microbatch 1
}
}

// -----

// expected-error @below {{cluster_c4: parts are 0; they must be from 1 to 65536}}
module attributes {omnibal.cluster = #plan.cluster<stages = 1, latency = 1, bytes_per_s = 1, data_parallel = 1, replica_latency = 0, replica_bytes_per_s = 1, parts = 0>} {}

// -----

// expected-error @below {{pipeline_c6: parts are 65537; they must be from 1 to 65536}}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 1, microbatches = 1, data_parallel = 2, parts = 65537, chunk_stages = [0]>} {}
