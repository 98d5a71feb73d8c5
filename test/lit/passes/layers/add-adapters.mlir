// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.](q|up)$ rank=2 alpha=4" > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=projector.fc|text.*[.](q|up)$ rank=2" --omnibal-attach-loss --omnibal-verify-layers --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.0.q rank=4 alpha=4" | FileCheck %s --check-prefix=ONE
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.0.q rank=4 alpha=3 rank-stabilized save=projector" | FileCheck %s --check-prefix=SAVED
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text" 2>&1 | FileCheck %s --check-prefix=WARNED
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=txt.*(q|upp)" 2>&1 | FileCheck %s --check-prefix=NOMATCH
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=norm1" 2>&1 | FileCheck %s --check-prefix=NORMS
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=(" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text save=resampler" 2>&1 | FileCheck %s --check-prefix=UNSAVED
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text rank=0" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text alpha=0" 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: not omnibal-opt %t.mlir --omnibal-add-adapters="match=text" 2>&1 | FileCheck %s --check-prefix=TWICE

// The module says what has been added, and only that trains.
// CHECK: omnibal.adapters = {alpha = 4.000000e+00 : f64,
// CHECK-SAME: {a = "text.0.q.lora_A.weight", b = "text.0.q.lora_B.weight", module = "text.0.q", weight = "text.0.q"}
// CHECK-SAME: {a = "text.1.up.lora_A.weight",
// CHECK-SAME: rank = 2 : i64
// CHECK: omnibal.parameter @text.embedding : tensor<11x8xf32> {frozen}
// CHECK: omnibal.parameter @text.0.q : tensor<8x8xf32> {frozen}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_A.weight : tensor<2x8xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_B.weight : tensor<8x2xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.q_bias : tensor<8xf32> {frozen}
// CHECK: omnibal.parameter @text.0.up : tensor<12x8xf32> {frozen}
// CHECK-NEXT: omnibal.parameter @text.0.up.lora_A.weight : tensor<2x8xf32>{{$}}
// CHECK-NEXT: omnibal.parameter @text.0.up.lora_B.weight : tensor<12x2xf32>{{$}}
// CHECK: omnibal.parameter @text.head : tensor<11x8xf32> {frozen}

// W x + b, and B (2 (A x)) added to it.
// CHECK: omnibal.layer "language.layers.0"
// CHECK: %[[Y:.*]] = omnibal.linear %[[X:.*]], %{{.*}}, %{{.*}} : (tensor<1x?x8xf32, {{.*}}>, tensor<8x8xf32>, tensor<8xf32>)
// CHECK-NEXT: %[[LOW:.*]] = omnibal.linear %[[X]], %{{.*}} : (tensor<1x?x8xf32, {{.*}}>, tensor<2x8xf32>) -> tensor<1x?x2xf32,
// CHECK-NEXT: %[[SCALE:.*]] = omnibal.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[SCALED:.*]] = omnibal.mul %[[LOW]], %[[SCALE]]
// CHECK-NEXT: %[[HIGH:.*]] = omnibal.linear %[[SCALED]], %{{.*}} : (tensor<1x?x2xf32, {{.*}}>, tensor<8x2xf32>)
// CHECK-NEXT: %[[SUM:.*]] = omnibal.add %[[Y]], %[[HIGH]]
// CHECK: omnibal.reshape %[[SUM]]

// Equal layers still share their functions. Nothing trains below the first adapter.
// FUNCTIONS-DAG: omnibal.layer_fn @vision_1 forward(@vision_1.forward) evaluate
// FUNCTIONS-DAG: omnibal.layer_fn @language_1 {{.*}} backward(@language_1.backward)
// FUNCTIONS-DAG: omnibal.layer_fn @head_0 forward(@head_0.forward) backward(@head_0.backward)
// FUNCTIONS-NOT: omnibal.layer_fn @language_2

// A scale of 1 needs no product.
// ONE-NOT: text.1.q.lora_A
// ONE: omnibal.linear {{.*}}tensor<4x8xf32>) -> tensor<1x?x4xf32
// ONE-NEXT: omnibal.linear {{.*}}tensor<8x4xf32>)
// ONE-NEXT: omnibal.add

// The scale is alpha / sqrt(rank); a module trains as a whole.
// SAVED: rank_stabilized, saved = [{module = "projector", parameter = "projector.fc"}, {module = "projector", parameter = "projector.bias"}]
// SAVED: omnibal.parameter @vision.patch : tensor<8x6xf32> {frozen}
// SAVED: omnibal.parameter @projector.fc : tensor<8x16xf32>{{$}}
// SAVED: omnibal.parameter @projector.bias : tensor<8xf32>{{$}}
// SAVED: omnibal.constant dense<1.500000e+00> : tensor<f32>

// WARNED: warning: omnibal-add-adapters: 1 parameters match 'text' but get no adapter, as they are not the weights of linear layers alone (embeddings, experts, convolutions): 'text.embedding'

// NOMATCH: error: omnibal-add-adapters: no linear layer's weight matches 'txt.*(q|upp)'; linear layers with names near it: text.0.up,
// NORMS: error: omnibal-add-adapters: no linear layer's weight matches 'norm1'
// SYNTAX: error: omnibal-add-adapters: '(' is not a regular expression:
// EMPTY: error: omnibal-add-adapters: '' is not a regular expression: it is empty
// UNSAVED: error: omnibal-add-adapters: no parameter's name matches 'resampler'; modules with names near it:
// RANK: error: omnibal-add-adapters: the rank is 0; it must be at least 1
// ALPHA: error: omnibal-add-adapters: alpha must be a number above 0
// TWICE: error: omnibal-add-adapters: the module has adapters already
