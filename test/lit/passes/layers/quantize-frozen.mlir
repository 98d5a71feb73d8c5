// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.](q|up)$ rank=2 alpha=2" --omnibal-attach-loss --omnibal-quantize-frozen="kind=nf4" | FileCheck %s
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.]q$ rank=2" --omnibal-attach-loss --omnibal-quantize-frozen="kind=int8 match=text.0" --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=language" --omnibal-quantize-frozen="kind=int8 match=text" 2>&1 | FileCheck %s --check-prefix=FROZEN
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text" --omnibal-quantize-frozen="kind=fp4" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-quantize-frozen 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-quantize-frozen="match=text" 2>&1 | FileCheck %s --check-prefix=TRAINS
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-quantize-frozen="match=(" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-quantize-frozen="match=resampler" 2>&1 | FileCheck %s --check-prefix=NOMATCH

// The weights below adapters, and no others, wherever they are read.
// CHECK: omnibal.parameter @text.0.q : tensor<8x8xf32, "nf4"> {frozen}
// CHECK-NEXT: omnibal.parameter @text.0.q.lora_A.weight : tensor<2x8xf32>{{$}}
// CHECK: omnibal.parameter @text.0.up : tensor<12x8xf32, "nf4"> {frozen}
// CHECK: omnibal.get_parameter @text.0.q : tensor<8x8xf32, "nf4">
// CHECK: omnibal.layer "language.layers.0"
// CHECK: omnibal.linear %{{.*}}, %{{.*}}, %{{.*}} : (tensor<1x?x8xf32, {{.*}}>, tensor<8x8xf32, "nf4">, tensor<8xf32>)

// A layer with quantized weights and one without have different functions. The backward reads the same type.
// FUNCTIONS: omnibal.layer_fn @language_1 {{.*}} backward(@language_1.backward)
// FUNCTIONS: func.func {{.*}}@language_1.backward({{.*}}tensor<8x8xf32, "int8">
// FUNCTIONS: omnibal.linear {{.*}} {in_out} : ({{.*}}, tensor<12x8xf32, "int8">)
// FUNCTIONS: omnibal.layer_fn @language_2 {{.*}} backward(@language_2.backward)
// FUNCTIONS-NOT: "int8"

// FROZEN: warning: omnibal-quantize-frozen: 1 frozen parameters match 'text' but stay as they are, because not linear layers alone read them: 'text.embedding'
// FROZEN: omnibal.parameter @text.embedding : tensor<11x8xf32> {frozen}
// FROZEN: omnibal.parameter @text.0.q : tensor<8x8xf32, "int8"> {frozen}

// KIND: error: omnibal-quantize-frozen: 'fp4' is no kind of quantized weights; int8 and nf4 are
// NOTHING: error: omnibal-quantize-frozen: the module has no adapters, so `match` must say which frozen weights are quantized
// TRAINS: error: omnibal-quantize-frozen: no frozen weight of a linear layer matches 'text'; those that match train
// SYNTAX: error: omnibal-quantize-frozen: '(' is not a regular expression:
// NOMATCH: error: omnibal-quantize-frozen: no frozen weight of a linear layer matches 'resampler'
