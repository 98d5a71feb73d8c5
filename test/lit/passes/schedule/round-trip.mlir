// Costs, plans, messages and stages print what they parse.
// RUN: omnibal-opt %s | omnibal-opt | FileCheck %s
// RUN: omnibal-opt %s --mlir-print-op-generic | omnibal-opt | FileCheck %s

// CHECK: module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 1, data_parallel = 2, chunk_stages = [0, 1]>}
module attributes {omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 1, data_parallel = 2, chunk_stages = [0, 1]>} {
omnibal.parameter @p : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  // CHECK: omnibal.buffers = #plan.buffers<outputs = [8], evaluate = <workspace = 2, formals = [#plan.formal<role = output, index = 0, bytes = 8>, #plan.formal<role = batch, name = "ids", bytes = 5>]>, inference = <workspace = 2, formals = [#plan.formal<role = output, index = 0, bytes = 8>, #plan.formal<role = batch, name = "ids", bytes = 5>]>, options = {full = #plan.functions<forward = <workspace = 1, formals = [#plan.formal<role = saved, index = 0, bytes = 4>], products = unit>, backward = <workspace = 0, formals = [], column_sums = unit>>, keep = #plan.functions<forward = <workspace = 1, formals = [#plan.formal<role = saved, index = 0, bytes = 4>], products = unit>, backward = <workspace = 0, formals = [], column_sums = unit>>}>
  // CHECK-SAME: omnibal.cost = #plan.cost<forward = 10, input_grad = 0, weight_grad = 20, outputs = [8], gradients = [0], options = [#plan.option<name = "keep", saved = 8, recompute = 0, workspace = 16>, #plan.option<name = "full", saved = 4, recompute = 10, workspace = 16, split = 12 : i64>]>
  %x = omnibal.call_layer "body" language @body inputs() parameters [@p] {omnibal.buffers = #plan.buffers<outputs = [8], evaluate = <workspace = 2, formals = [#plan.formal<role = output, index = 0, bytes = 8>, #plan.formal<role = batch, name = "ids", bytes = 5>]>, inference = <workspace = 2, formals = [#plan.formal<role = output, index = 0, bytes = 8>, #plan.formal<role = batch, name = "ids", bytes = 5>]>, options = {full = #plan.functions<forward = <workspace = 1, formals = [#plan.formal<role = saved, index = 0, bytes = 4>], products = unit>, backward = <workspace = 0, formals = [], column_sums = unit>>, keep = #plan.functions<forward = <workspace = 1, formals = [#plan.formal<role = saved, index = 0, bytes = 4>], products = unit>, backward = <workspace = 0, formals = [], column_sums = unit>>}>, omnibal.chunk = 0 : i64, omnibal.cost = #plan.cost<forward = 10, input_grad = 0, weight_grad = 20, outputs = [8], gradients = [0], options = [#plan.option<name = "keep", saved = 8, recompute = 0, workspace = 16>, #plan.option<name = "full", saved = 4, recompute = 10, workspace = 16, split = 12 : i64>]>} : () -> tensor<2xf32>
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
// CHECK: omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
omnibal.transfer @there activation id 0 from 0 to 1 layers ["body"] outputs [0]
// CHECK: omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
omnibal.transfer @back gradient id 1 from 1 to 0 layers ["body"] outputs [0]
// CHECK: omnibal.stage @stage_0 index 0 {
omnibal.stage @stage_0 index 0 {
  // CHECK-NEXT: omnibal.run forward chunk 0 microbatch 0
  omnibal.run forward chunk 0 microbatch 0
  // CHECK-NEXT: omnibal.send @there microbatch 0
  omnibal.send @there microbatch 0
  // CHECK-NEXT: omnibal.post_recv @back microbatch 0
  omnibal.post_recv @back microbatch 0
  // CHECK-NEXT: omnibal.wait_send @there microbatch 0
  omnibal.wait_send @there microbatch 0
  // CHECK-NEXT: omnibal.wait_recv @back microbatch 0
  omnibal.wait_recv @back microbatch 0
  // CHECK-NEXT: omnibal.run input_grad chunk 0 microbatch 0
  omnibal.run input_grad chunk 0 microbatch 0
  // CHECK-NEXT: omnibal.run weight_grad chunk 0 microbatch 0
  omnibal.run weight_grad chunk 0 microbatch 0
  // CHECK-NEXT: omnibal.reduce_shared @p
  omnibal.reduce_shared @p
  // CHECK-NEXT: omnibal.reduce_gradients
  omnibal.reduce_gradients
  // CHECK-NEXT: omnibal.reduce_scalars
  omnibal.reduce_scalars
  // CHECK-NEXT: omnibal.update_parameters
  omnibal.update_parameters
}
// CHECK: omnibal.stage @inference_0 index 0 mode inference {
omnibal.stage @inference_0 index 0 mode inference {
  omnibal.run forward chunk 0 microbatch 0
}
}
