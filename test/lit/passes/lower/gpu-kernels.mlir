// RUN: omnibal-opt %s --split-input-file --test-emit-gpu-kernels | FileCheck %s -enable-var-scope
// RUN: omnibal-opt %s --split-input-file --test-emit-gpu-kernels=compute=bfloat16 | FileCheck %s -enable-var-scope --check-prefix=BF16

#n = affine_map<(d0, d1) -> (1, d1, 1024)>
!x = tensor<1x?x1024xf32, #n>

// A norm reads its weight once before the rows and its row once, in packs of 16 bytes; the warps of
// a row exchange one sum behind one barrier. Threads without a row load too and store nothing.
// CHECK-LABEL: func.func @norm
// CHECK: gpu.func @fused_{{[0-9a-f]+}}
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 256, 1, 1>}
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: !llvm.ptr<1> ->
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: math.rsqrt
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK-NOT: llvm.call
// CHECK: gpu.return
// BF16-LABEL: func.func @norm
// BF16: gpu.func
// BF16-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// BF16-NOT: !llvm.ptr<1> ->
// BF16: gpu.barrier
// BF16-NOT: gpu.barrier
// BF16-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// BF16-NOT: llvm.store
// BF16: gpu.return
func.func @norm(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
    %w: tensor<1024xf32> {omnibal.role = "parameter", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.rms_norm %x, %w {axis = -1 : i64, epsilon = 1.0e-6 : f64} : (!x, tensor<1024xf32>) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 64)>
!x = tensor<1x?x64xf32, #n>

// Rows of 64 columns are a quarter of a warp's: two reductions by shuffles alone.
// CHECK-LABEL: func.func @softmax
// CHECK: gpu.func
// CHECK-NOT: gpu.barrier
// CHECK: gpu.shuffle xor
// CHECK: math.exp
// CHECK: gpu.shuffle xor
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return
func.func @softmax(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.softmax %x {axis = -1 : i64} : (!x) -> !x
  return %0 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 96)>
!x = tensor<1x?x96xf32, #n>

// Elementwise groups are a line: no shuffle, no shared memory; computed in float32 whatever the
// storage; the last block goes element by element.
// CHECK-LABEL: func.func @swiglu
// CHECK: gpu.func
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.return
// BF16-LABEL: func.func @swiglu
// BF16: gpu.func
// BF16-SAME: known_block_size = array<i32: 256, 1, 1>
// BF16-NOT: gpu.shuffle
// BF16-NOT: gpu.barrier
// BF16: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// BF16: arith.extf {{.*}} : bf16 to f32
// BF16: arith.mulf {{.*}} : f32
// BF16: arith.truncf {{.*}} : f32 to bf16
// BF16: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// BF16: gpu.return
func.func @swiglu(%g: !x {omnibal.role = "input", omnibal.index = 0 : i64},
    %u: !x {omnibal.role = "input", omnibal.index = 1 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.silu %g : (!x) -> !x
  %1 = omnibal.mul %0, %u : (!x, !x) -> !x
  return %1 : !x
}

// -----

#n = affine_map<(d0, d1) -> (1, d1, 96)>
!x = tensor<1x?x96xf32, #n>

// Equal groups are one kernel; a module without groups has an empty gpu.module.
// CHECK-LABEL: func.func @twice
// CHECK-COUNT-1: gpu.func
// CHECK-NOT: gpu.func
func.func @twice(%x: !x {omnibal.role = "input", omnibal.index = 0 : i64},
    %w: tensor<96x96xf32> {omnibal.role = "parameter", omnibal.index = 0 : i64})
    -> (!x {omnibal.role = "output", omnibal.index = 0 : i64}) {
  %0 = omnibal.quick_gelu %x : (!x) -> !x
  %1 = omnibal.linear %0, %w : (!x, tensor<96x96xf32>) -> !x
  %2 = omnibal.quick_gelu %1 : (!x) -> !x
  return %2 : !x
}
