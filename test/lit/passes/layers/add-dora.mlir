// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.](q|up)$ rank=2 alpha=4 dora" > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: omnibal-opt %t.mlir --omnibal-attach-loss --omnibal-verify-layers --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %t.mlir --omnibal-attach-loss --omnibal-quantize-frozen="kind=int8" | FileCheck %s --check-prefix=QUANTIZED
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.0.q rank=4 alpha=4 rank-stabilized dora save=projector" | FileCheck %s --check-prefix=STABILIZED
// RUN: not omnibal-opt %t.mlir --omnibal-add-adapters="match=text" 2>&1 | FileCheck %s --check-prefix=TWICE

// A magnitude for each output trains beside A and B.
// CHECK: omnibal.adapters = {alpha = 4.000000e+00 : f64, dora,
// CHECK-SAME: {a = "text.0.q.lora_A.weight", b = "text.0.q.lora_B.weight", magnitude = "text.0.q.lora_magnitude_vector", module = "text.0.q", weight = "text.0.q"}
// CHECK: omnibal.parameter @text.0.q : tensor<8x8xf32> {frozen}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_A.weight : tensor<2x8xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_B.weight : tensor<8x2xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_magnitude_vector : tensor<8xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.q_bias : tensor<8xf32> {frozen}
// CHECK: omnibal.parameter @text.0.up.lora_magnitude_vector : tensor<12xf32>{{$}}

// m / |W + 2 B A| times W x + B (2 (A x)), and then the bias.
// CHECK: omnibal.layer "language.layers.0"
// CHECK: %[[SQUARES:.*]] = omnibal.row_squares %[[W:.*]], %[[A:.*]], %[[B:.*]] {scale = 2.000000e+00 : f64} : (tensor<8x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[INVERSE:.*]] = omnibal.rsqrt %[[SQUARES]]
// CHECK-NEXT: %[[FACTOR:.*]] = omnibal.mul %{{.*}}, %[[INVERSE]] : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[Y:.*]] = omnibal.linear %[[X:.*]], %[[W]] : (tensor<1x?x8xf32, {{.*}}>, tensor<8x8xf32>)
// CHECK-NEXT: %[[LOW:.*]] = omnibal.linear %[[X]], %[[A]]
// CHECK-NEXT: %[[SCALE:.*]] = omnibal.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[SCALED:.*]] = omnibal.mul %[[LOW]], %[[SCALE]]
// CHECK-NEXT: %[[HIGH:.*]] = omnibal.linear %[[SCALED]], %[[B]]
// CHECK-NEXT: %[[SUM:.*]] = omnibal.add %[[Y]], %[[HIGH]]
// CHECK-NEXT: %[[RESULT:.*]] = omnibal.mul %[[SUM]], %[[FACTOR]]
// CHECK-NEXT: %[[BIASED:.*]] = omnibal.add %[[RESULT]], %{{.*}} : (tensor<1x?x8xf32, {{.*}}>, tensor<8xf32>)
// CHECK: omnibal.reshape %[[BIASED]]

// Equal layers share functions. The forward keeps the squares, so that the backward does not compute them again, and no
// gradient passes through them.
// FUNCTIONS: omnibal.layer_fn @language_1 {{.*}} backward(@language_1.backward)
// FUNCTIONS: func.func {{.*}}@language_1.forward(
// FUNCTIONS-COUNT-2: omnibal.row_squares
// FUNCTIONS: func.func {{.*}}@language_1.backward(
// FUNCTIONS-NOT: omnibal.row_squares
// FUNCTIONS: return
// FUNCTIONS: omnibal.layer_fn @head_0
// FUNCTIONS-NOT: omnibal.layer_fn @language_2

// Rows of codes are squared as the numbers that they stand for.
// QUANTIZED: omnibal.parameter @text.0.q : tensor<8x8xf32, "int8"> {frozen}
// QUANTIZED: omnibal.row_squares {{.*}} : (tensor<8x8xf32, "int8">, tensor<2x8xf32>, tensor<8x2xf32>)

// STABILIZED: dora, linears = {{.*}} rank_stabilized, saved = [{module = "projector", parameter = "projector.fc"}
// STABILIZED: omnibal.row_squares {{.*}} {scale = 2.000000e+00 : f64}

// TWICE: error: omnibal-add-adapters: the module has adapters already
