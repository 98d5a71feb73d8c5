// Costs by hand: four layers of 10 + 10 + 10 ns; each saves 640 bytes, or 64 and runs forward again.
// A transfer takes 1 + 64 ns. Two layers a stage. Stage 0 holds two micro-batches: 2 * 1280 bytes
// saved, a tied parameter of 256, temporaries of 128. Reserved besides: two outputs until their
// gradients are back, one gradient received (the next one is asked for when it can have been made),
// one gradient between the layers, 64 bytes each. So all kept takes 2944 + 256 bytes; with one layer
// recomputed 1792 + 256. Stage 1 holds one micro-batch:
// 1280 + 128, and reserves the second copy of the parameter, 256, two inputs received (it waits for
// the next one), one gradient sent for each of up to three backwards, one between its layers.
// RUN: omnibal-opt %s --omnibal-search-plan="microbatches=4" --omnibal-verify-plan | FileCheck %s
// CHECK: omnibal.plan = #plan.pipeline<schedule = "1f1b", stages = 2, microbatches = 4, data_parallel = 1, chunk_stages = [0, 1]>, omnibal.reserved = array<i64: 256, 
// CHECK: layer "a" {{.*}}omnibal.chunk = 0 : i64, {{.*}}omnibal.remat = "full"}
// CHECK: layer "b" {{.*}}omnibal.chunk = 0 : i64, {{.*}}omnibal.remat = "keep"}
// CHECK: layer "c" {{.*}}omnibal.chunk = 1 : i64, {{.*}}omnibal.remat = "keep"}
// CHECK: layer "d" {{.*}}omnibal.chunk = 1 : i64, {{.*}}omnibal.remat = "keep"}

// RUN: omnibal-opt %s --omnibal-attach-cluster="stages=2" --omnibal-search-plan="microbatches=4 method=layers remat=full" | FileCheck %s --check-prefix=FULL
// FULL-COUNT-4: omnibal.remat = "full"
// RUN: omnibal-opt %s --omnibal-attach-cluster="stages=4" --omnibal-search-plan="microbatches=4" | FileCheck %s --check-prefix=FOUR
// FOUR: chunk_stages = [0, 1, 2, 3]
// FOUR-COUNT-4: omnibal.remat = "keep"
// With 3200 bytes nothing is recomputed; one less is too few.
// RUN: omnibal-opt %s --omnibal-attach-cluster="stages=2 memory-limit-bytes=3200" --omnibal-search-plan="microbatches=4 method=layers" | FileCheck %s --check-prefix=ENOUGH
// ENOUGH-COUNT-4: omnibal.remat = "keep"
// RUN: omnibal-opt %s --omnibal-attach-cluster="stages=2 memory-limit-bytes=3199" --omnibal-search-plan="microbatches=4 method=layers" | FileCheck %s --check-prefix=SHORT
// SHORT: omnibal.remat = "full"

// Where steps are planned, a chunk of two such layers keeps both, recomputes one, or both.
// RUN: omnibal-opt %s --omnibal-search-plan="microbatches=4 schedule=per-step" | FileCheck %s --check-prefix=STEPS
// STEPS: omnibal.step_planned
// STEPS: layer "a" {{.*}}omnibal.remat_variants = ["keep", "full", "full"]
// STEPS: layer "b" {{.*}}omnibal.remat_variants = ["keep", "keep", "full"]
// A person's choice stays, and without a limit nothing is gained.
// RUN: omnibal-opt %s --omnibal-search-plan="microbatches=4 schedule=per-step remat=full" | FileCheck %s --check-prefix=BY-HAND
// RUN: omnibal-opt %s --omnibal-attach-cluster="stages=2" --omnibal-search-plan="microbatches=4 schedule=per-step" | FileCheck %s --check-prefix=BY-HAND
// BY-HAND-NOT: omnibal.remat_variants

// RUN: not omnibal-opt %s --omnibal-attach-cluster="stages=2 memory-limit-bytes=90" --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=TOO-BIG
// TOO-BIG: infeasible: layer a fits no stage even alone, even with everything recomputed
// RUN: sed '/layer "b"/ s/forward = 10/forward = 600000000000000000/' %s | not omnibal-opt --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: sed '/layer "b"/ s/forward = 10/forward = 600000000000000000/' %s | not omnibal-opt --omnibal-search-plan="method=layers" 2>&1 | FileCheck %s --check-prefix=TIMES
// TIMES: the problem is too large to plan: the sum of all times (over layers, options and micro-batches) exceeds 2^59
// RUN: sed 's/resident = 256/resident = 9000000000000000000/' %s | not omnibal-opt --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=SIZES
// SIZES: the problem is too large to plan: the sum of all sizes (over layers, options and micro-batches) exceeds 2^59
// RUN: not omnibal-opt %s --omnibal-search-plan="remat=some" 2>&1 | FileCheck %s --check-prefix=REMAT
// REMAT: unknown remat `some` (known: auto, none, full, selective-1, selective-2 ..)
// RUN: sed 's/omnibal.cluster/other.cluster/' %s | not omnibal-opt --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=CLUSTER
// CLUSTER: omnibal-search-plan: the module has no omnibal.cluster
// RUN: sed '/layer "b"/ s/omnibal.cost/other.cost/' %s | not omnibal-opt --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=COST
// COST: has no omnibal.cost; run omnibal-annotate-costs before omnibal-search-plan
// RUN: sed 's/module attributes {/&omnibal.loads = [{language = "1.x"}], /' %s | not omnibal-opt --omnibal-search-plan 2>&1 | FileCheck %s --check-prefix=LOADS
// LOADS: omnibal.loads holds {language = "1.x"}; it must hold one #plan.load a micro-batch

// With everything kept, stage 0 ends its last backward at 20 + 65 + 290 (stage 1 waits 65 + 65 + 2 * 20
// for the third micro-batch) + 65 + 40 = 560 ns; recomputing one layer delays it three times by 10.
// RUN: omnibal-opt %s --omnibal-search-plan="microbatches=4" --remarks-filter=".*" --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK
// REMARK-DAG: search-plan.mlir:[[#]]:{{.*}}stage 0 begins with a: 2 layers, forward 80 ns, backward 200 ns, idle 310 ns, peak 1792 bytes, reserved 256 bytes
// REMARK-DAG: search-plan.mlir:[[#]]:{{.*}}chunk 0 begins with a: stage 0 is busy for 47.5 % of the step, the most of all stages, and recomputes for 40 ns because its memory is full
// REMARK-DAG: search-plan.mlir:[[#]]:{{.*}}chunk 1 begins with c: stage 1 is busy for 40.7 % of the step; the next best place of this cut, before b, takes 590 ns, as fast
// REMARK-DAG: search-plan.mlir:[[#]]:{{.*}}1 GB more on stage 0 would take 560 ns, 5.08 % faster; one stage more would take

module attributes {omnibal.cluster = #plan.cluster<stages = 2, memory = [2800, 2800], latency = 1, bytes_per_s = 1000000000, data_parallel = 1, replica_latency = 0, replica_bytes_per_s = 1>} {
omnibal.parameter @tied : tensor<2xf32> {omnibal.cost = #plan.parameter<resident = 256, reduced = 64, state = 128>}
func.func @main() -> tensor<2xf32> {
  %p = omnibal.get_parameter @tied : tensor<2xf32>
  %0 = omnibal.layer "a" language inputs() parameters(%p) attributes {omnibal.cost = #plan.cost<forward = 10, input_grad = 10, weight_grad = 10, outputs = [64], gradients = [64], options = [#plan.option<name = "keep", saved = 640, recompute = 0, workspace = 128>, #plan.option<name = "full", saved = 64, recompute = 10, workspace = 128>]>} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%w: tensor<2xf32>):
    omnibal.yield %w : tensor<2xf32>
  }
  %1 = omnibal.layer "b" language inputs(%0) parameters() attributes {omnibal.cost = #plan.cost<forward = 10, input_grad = 10, weight_grad = 10, outputs = [64], gradients = [64], options = [#plan.option<name = "keep", saved = 640, recompute = 0, workspace = 128>, #plan.option<name = "full", saved = 64, recompute = 10, workspace = 128>]>} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  %2 = omnibal.layer "c" language inputs(%1) parameters() attributes {omnibal.cost = #plan.cost<forward = 10, input_grad = 10, weight_grad = 10, outputs = [64], gradients = [64], options = [#plan.option<name = "keep", saved = 640, recompute = 0, workspace = 128>, #plan.option<name = "full", saved = 64, recompute = 10, workspace = 128>]>} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  %3 = omnibal.layer "d" head inputs(%2) parameters(%p) attributes {omnibal.cost = #plan.cost<forward = 10, input_grad = 10, weight_grad = 10, outputs = [64], gradients = [64], options = [#plan.option<name = "keep", saved = 640, recompute = 0, workspace = 128>, #plan.option<name = "full", saved = 64, recompute = 10, workspace = 128>]>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%x: tensor<2xf32>, %w: tensor<2xf32>):
    omnibal.yield %x : tensor<2xf32>
  }
  return %3 : tensor<2xf32>
}
}
