// A decoder block of 8 query heads over 4 key heads, on GPUs with a fast link that is slow to begin.
// RUN: echo '{"stages": 1, "parts": {"latency_ns": 20000, "bytes_per_s": 370000000000}}' > %t.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.json price=0.01" \
// RUN:   --omnibal-verify-layouts --remarks-filter=omnibal-layout --remark-format=emitRemark 2> %t.remarks | FileCheck %s --check-prefix=MEGATRON
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.json price=0" \
// RUN:   --omnibal-verify-layouts | FileCheck %s --check-prefix=FAST
// RUN: omnibal-opt %s --omnibal-attach-optimizer="optimizer=muon" --omnibal-attach-cluster="parts=2" \
// RUN:   --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.json price=0.01" --omnibal-verify-layouts | FileCheck %s --check-prefix=MUON
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=1 target=cuda cluster=%t.json price=0" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SAME
// RUN: omnibal-opt %s --omnibal-attach-cluster --omnibal-search-layouts="tokens=4096 price=0.01" | FileCheck %s --check-prefix=ALONE
// RUN: not omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 price=1" --omnibal-search-layouts 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TWICE
// RUN: not omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 price=1e30" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: echo '{"stages": 1, "parts": {"latency_ns": 20000}}' > %t.bad.json
// RUN: not omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="cluster=%t.bad.json" 2>&1 | FileCheck %s --check-prefix=LINK
// The link of parts is that of stages, where a file says no other.
// RUN: echo '{"stages": 1, "link": {"latency_ns": 20000, "bytes_per_s": 370000000000}}' > %t.link.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.json price=0.01" > %t.parts.mlir
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.link.json price=0.01" \
// RUN:   | diff - %t.parts.mlir
// RUN: echo '{"stages": 1, "link": {"latency_ns": 2000000000, "bytes_per_s": 1000000}}' > %t.slow.json
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.slow.json price=0.01" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SAME
// RUN: echo '{"stages": 1, "parts": {"latency_ns": 1000000000000000000, "bytes_per_s": 1}}' > %t.late.json
// RUN: not omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="cluster=%t.late.json" 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: omnibal-opt %s --omnibal-attach-cluster="parts=2" --omnibal-search-layouts="tokens=4096 target=cuda cluster=%t.json price=0.01 states=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FEW
// Replicas that run a micro-batch together hold all of every parameter.
// RUN: rm -rf %t.d && mkdir %t.d
// RUN: echo '{"schema": "omnibal.length-groups/1", "replicas": 2, "stages": 1, "tokens_per_step": 8192, "groups": [ \
// RUN:   {"name": "long", "tiles_cap": 1, "tokens_cap": 4096, "degree": 2, "ranks": 1, "microbatches": 2, \
// RUN:    "cost": {"tile_ns": 1, "token_ns": 1, "square_ns": 0, "microbatch_ns": 0, "step_ns": 0}}]}' > %t.d/groups.json
// RUN: echo '{"stages": 1, "data_parallel": {"size": 2, "latency_ns": 2000, "bytes_per_s": 370000000000}}' > %t.near.json
// RUN: omnibal-opt %s --pass-pipeline="builtin.module(omnibal-attach-cluster{cluster=%t.near.json}, omnibal-split-modes{batches=%t.d tokens=4096}, \
// RUN:   builtin.module(omnibal-search-layouts{target=cuda}, omnibal-verify-layouts))" | FileCheck %s --check-prefix=CONTEXT
// RUN: omnibal-opt %s --pass-pipeline="builtin.module(omnibal-attach-cluster{data-parallel=2}, omnibal-split-modes{batches=%t.d tokens=4096}, \
// RUN:   builtin.module(omnibal-search-layouts{target=cuda}, omnibal-verify-layouts))" 2>&1 | FileCheck %s --check-prefix=FAR

// FAR: warning: omnibal-search-layouts: length group long: moves among the 2 replicas of a context group would take longer than all that they save
// FAR: @norm1 : {{.*}} {omnibal.held = #plan.layout<copied>}

// CONTEXT-COUNT-10: omnibal.parameter {{.*}} {omnibal.held = #plan.layout<copied>}
// CONTEXT: omnibal.rms_norm {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>], omnibal.reads = [#plan.layout<split(1 : N)>, #plan.layout<copied>]
// CONTEXT: omnibal.attention {{.*}}omnibal.layouts = [#plan.layout<split(1 :
// CONTEXT: omnibal.linear {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>], omnibal.reads = [#plan.layout<split(1 : N)>, #plan.layout<copied>]
// CONTEXT: omnibal.mul {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>]

// Where memory has this price, what is found is Megatron's tensor parallelism with sequences: columns of what leads into heads and
// into the ffn, rows of what leads out of them; norms and sums of a part's own tokens, which are gathered in front of the columns,
// and one sum into shares behind the rows. Key heads are units, so queries are 4 units of 2 heads.
// MEGATRON: @norm1 : {{.*}} {omnibal.held = #plan.layout<copied>}
// MEGATRON: @q : {{.*}} {omnibal.held = #plan.layout<split(0 : 4 x 256)>}
// MEGATRON: @k : {{.*}} {omnibal.held = #plan.layout<split(0 : 4 x 128)>}
// MEGATRON: @v : {{.*}} {omnibal.held = #plan.layout<split(0 : 4 x 128)>}
// MEGATRON: @o : {{.*}} {omnibal.held = #plan.layout<split(1 : 4 x 256)>}
// MEGATRON: @norm2 : {{.*}} {omnibal.held = #plan.layout<copied>}
// MEGATRON: @gate : {{.*}} {omnibal.held = #plan.layout<split(0 : 2816)>}
// MEGATRON: @up : {{.*}} {omnibal.held = #plan.layout<split(0 : 2816)>}
// MEGATRON: @down : {{.*}} {omnibal.held = #plan.layout<split(1 : 2816)>}
// MEGATRON: omnibal.borders = [#plan.layout<split(1 : N)>]
// MEGATRON: omnibal.borders = [#plan.layout<split(1 : N)>, #plan.layout<whole>]
// MEGATRON: omnibal.rms_norm {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>], omnibal.reads = [#plan.layout<split(1 : N)>, #plan.layout<copied>]
// MEGATRON: omnibal.linear {{.*}}omnibal.layouts = [#plan.layout<split(2 : 4 x 256)>], omnibal.reads = [#plan.layout<copied>, #plan.layout<split(0 : 4 x 256)>]
// MEGATRON: omnibal.attention {{.*}}omnibal.layouts = [#plan.layout<split(1 : 4 x 2)>, #plan.layout<split(1 : 4 x 2)>]
// MEGATRON: omnibal.linear {{.*}}omnibal.layouts = [#plan.layout<partial>], omnibal.reads = [#plan.layout<split(2 : 4 x 256)>, #plan.layout<split(1 : 4 x 256)>]
// MEGATRON: omnibal.add {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>]
// MEGATRON: omnibal.mul {{.*}}omnibal.layouts = [#plan.layout<split(2 : 2816)>]
// MEGATRON: omnibal.linear {{.*}}omnibal.layouts = [#plan.layout<partial>], omnibal.reads = [#plan.layout<split(2 : 2816)>, #plan.layout<split(1 : 2816)>]
// MEGATRON: omnibal.add {{.*}}omnibal.layouts = [#plan.layout<split(1 : N)>]

// REMARK: 1 layer like language.embedding on 2 parts: words split(1 : 1024), shares of rows between layers;
// REMARK: 1 layer like language.layers.0 on 2 parts: norm1 copied, q split(0 : 4 x 256), k split(0 : 4 x 128), v split(0 : 4 x 128), o split(1 : 4 x 256),
// REMARK-SAME: us: work {{[0-9.]+}}, moves {{[0-9.]+}}, price of kept values {{[0-9.]+}} and of parameters {{[0-9.]+}}; 106205184 bytes of parameters;
// REMARK-SAME: no less than {{[0-9.]+}} us; next best: norm1 copied, q split(0 : 4 x 256),
// REMARK-SAME: moves {{[0-9.]+}} us more

// Without a price only the ffn is worth a sum, and the table none.
// FAST-NOT: @words {{.*}}omnibal.held
// FAST-NOT: @q {{.*}}omnibal.held
// FAST: @gate : {{.*}} {omnibal.held = #plan.layout<split(0 : 2816)>}
// FAST: @down : {{.*}} {omnibal.held = #plan.layout<split(1 : 2816)>}

// What the optimizer orthogonalizes is all there on every part, at any price, though parts may use it for tokens of their own; the
// table is none of it.
// MUON: @words : {{.*}} {omnibal.held = #plan.layout<split(1 : 1024)>}
// MUON: @q : {{.*}} {omnibal.orthogonalized}
// MUON-NOT: @{{.*}}#plan.layout<split({{.*}}omnibal.orthogonalized
// MUON: @down : {{.*}}omnibal.orthogonalized}

// SAME: warning: omnibal-search-layouts: moves among 2 parts would take longer than all that they save, so all parts of a stage do the same
// SAME-NOT: #plan.layout

// LATE: late.json.parts: `latency_ns` is more than 2^59

// FEW: warning: omnibal-search-layouts: not all layouts of layer language.layers.0 (1 alike) were tried, so there may be better ones

// ALONE-NOT: #plan.layout
// TWICE: has layouts already, and a search would write others
// RANGE: look at the rates of device and links and at the price
// LINK: `parts` is a JSON object with `latency_ns` and `bytes_per_s`

#m1_n_1024 = affine_map<(d0, d1) -> (1, d1, 1024)>
#m1_n_512 = affine_map<(d0, d1) -> (1, d1, 512)>
#m1_n_2816 = affine_map<(d0, d1) -> (1, d1, 2816)>
#m1_n_8_128 = affine_map<(d0, d1) -> (1, d1, 8, 128)>
#m1_8_n_128 = affine_map<(d0, d1) -> (1, 8, d1, 128)>
#m1_n_4_128 = affine_map<(d0, d1) -> (1, d1, 4, 128)>
#m1_4_n_128 = affine_map<(d0, d1) -> (1, 4, d1, 128)>
#m1_8_n = affine_map<(d0, d1) -> (1, 8, d1)>

omnibal.parameter @words : tensor<5001x1024xf32>
omnibal.parameter @norm1 : tensor<1024xf32>
omnibal.parameter @q : tensor<1024x1024xf32>
omnibal.parameter @k : tensor<512x1024xf32>
omnibal.parameter @v : tensor<512x1024xf32>
omnibal.parameter @o : tensor<1024x1024xf32>
omnibal.parameter @norm2 : tensor<1024xf32>
omnibal.parameter @gate : tensor<2816x1024xf32>
omnibal.parameter @up : tensor<2816x1024xf32>
omnibal.parameter @down : tensor<1024x2816xf32>


func.func @main() {
  %table = omnibal.get_parameter @words : tensor<5001x1024xf32>
  %x = omnibal.layer "language.embedding" language inputs() parameters(%table) : (tensor<5001x1024xf32>) -> tensor<1x?x1024xf32, #m1_n_1024> {
  ^bb0(%t: tensor<5001x1024xf32>):
    %ids = omnibal.batch_value "input_ids" : tensor<1x?xi32, affine_map<(d0, d1) -> (1, d1)>>
    %e = omnibal.embedding %t, %ids : (tensor<5001x1024xf32>, tensor<1x?xi32, affine_map<(d0, d1) -> (1, d1)>>) -> tensor<1x?x1024xf32, #m1_n_1024>
    omnibal.yield %e : tensor<1x?x1024xf32, #m1_n_1024>
  }
  %wnorm1 = omnibal.get_parameter @norm1 : tensor<1024xf32>
  %wq = omnibal.get_parameter @q : tensor<1024x1024xf32>
  %wk = omnibal.get_parameter @k : tensor<512x1024xf32>
  %wv = omnibal.get_parameter @v : tensor<512x1024xf32>
  %wo = omnibal.get_parameter @o : tensor<1024x1024xf32>
  %wnorm2 = omnibal.get_parameter @norm2 : tensor<1024xf32>
  %wgate = omnibal.get_parameter @gate : tensor<2816x1024xf32>
  %wup = omnibal.get_parameter @up : tensor<2816x1024xf32>
  %wdown = omnibal.get_parameter @down : tensor<1024x2816xf32>
  %y = omnibal.layer "language.layers.0" language inputs(%x) parameters(%wnorm1, %wq, %wk, %wv, %wo, %wnorm2, %wgate, %wup, %wdown)
    : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1024xf32>, tensor<1024x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<1024x1024xf32>, tensor<1024xf32>, tensor<2816x1024xf32>, tensor<2816x1024xf32>, tensor<1024x2816xf32>) -> tensor<1x?x1024xf32, #m1_n_1024> {
  ^bb0(%in: tensor<1x?x1024xf32, #m1_n_1024>, %norm1: tensor<1024xf32>, %q: tensor<1024x1024xf32>, %k: tensor<512x1024xf32>, %v: tensor<512x1024xf32>, %o: tensor<1024x1024xf32>, %norm2: tensor<1024xf32>, %gate: tensor<2816x1024xf32>, %up: tensor<2816x1024xf32>, %down: tensor<1024x2816xf32>):
    %cu = omnibal.batch_value "cu_seqlens" : tensor<?xi32, affine_map<(d0, d1) -> (d1 + 1)>>
    %a = omnibal.rms_norm %in, %norm1 {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1024xf32>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %q0 = omnibal.linear %a, %q : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1024x1024xf32>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %k0 = omnibal.linear %a, %k : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<512x1024xf32>) -> tensor<1x?x512xf32, #m1_n_512>
    %v0 = omnibal.linear %a, %v : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<512x1024xf32>) -> tensor<1x?x512xf32, #m1_n_512>
    %q1 = omnibal.reshape %q0 : (tensor<1x?x1024xf32, #m1_n_1024>) -> tensor<1x?x8x128xf32, #m1_n_8_128>
    %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x8x128xf32, #m1_n_8_128>) -> tensor<1x8x?x128xf32, #m1_8_n_128>
    %k1 = omnibal.reshape %k0 : (tensor<1x?x512xf32, #m1_n_512>) -> tensor<1x?x4x128xf32, #m1_n_4_128>
    %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x4x128xf32, #m1_n_4_128>) -> tensor<1x4x?x128xf32, #m1_4_n_128>
    %v1 = omnibal.reshape %v0 : (tensor<1x?x512xf32, #m1_n_512>) -> tensor<1x?x4x128xf32, #m1_n_4_128>
    %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x4x128xf32, #m1_n_4_128>) -> tensor<1x4x?x128xf32, #m1_4_n_128>
    %r, %lse = omnibal.attention %q2, %k2, %v2, %cu {scale = 0.088 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x8x?x128xf32, #m1_8_n_128>, tensor<1x4x?x128xf32, #m1_4_n_128>, tensor<1x4x?x128xf32, #m1_4_n_128>, tensor<?xi32, affine_map<(d0, d1) -> (d1 + 1)>>) -> (tensor<1x8x?x128xf32, #m1_8_n_128>, tensor<1x8x?xf32, #m1_8_n>)
    %r1 = omnibal.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x?x128xf32, #m1_8_n_128>) -> tensor<1x?x8x128xf32, #m1_n_8_128>
    %r2 = omnibal.reshape %r1 : (tensor<1x?x8x128xf32, #m1_n_8_128>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %r3 = omnibal.linear %r2, %o : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1024x1024xf32>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %s = omnibal.add %in, %r3 : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1x?x1024xf32, #m1_n_1024>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %b = omnibal.rms_norm %s, %norm2 {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1024xf32>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %g0 = omnibal.linear %b, %gate : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<2816x1024xf32>) -> tensor<1x?x2816xf32, #m1_n_2816>
    %u0 = omnibal.linear %b, %up : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<2816x1024xf32>) -> tensor<1x?x2816xf32, #m1_n_2816>
    %g1 = omnibal.silu %g0 : (tensor<1x?x2816xf32, #m1_n_2816>) -> tensor<1x?x2816xf32, #m1_n_2816>
    %h = omnibal.mul %g1, %u0 : (tensor<1x?x2816xf32, #m1_n_2816>, tensor<1x?x2816xf32, #m1_n_2816>) -> tensor<1x?x2816xf32, #m1_n_2816>
    %d = omnibal.linear %h, %down : (tensor<1x?x2816xf32, #m1_n_2816>, tensor<1024x2816xf32>) -> tensor<1x?x1024xf32, #m1_n_1024>
    %out = omnibal.add %s, %d : (tensor<1x?x1024xf32, #m1_n_1024>, tensor<1x?x1024xf32, #m1_n_1024>) -> tensor<1x?x1024xf32, #m1_n_1024>
    omnibal.yield %out : tensor<1x?x1024xf32, #m1_n_1024>
  }
  return
}
