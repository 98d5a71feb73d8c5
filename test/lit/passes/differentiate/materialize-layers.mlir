// What becomes of layers: Inputs/form-l.mlir has two equal vision and two equal language blocks.
//
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions > %t.keep
// RUN: FileCheck %s --check-prefix=CALLS < %t.keep
// RUN: FileCheck %s --check-prefix=KEEP < %t.keep
// RUN: FileCheck %s --check-prefix=HEAD < %t.keep
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-loss --test-select-remat="choice=full" --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FULL
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=vision" --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=VISION
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=vision,language" --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=LANGUAGE
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="match=vision.1.norm1$" --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=UNEQUAL
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-loss --omnibal-materialize-layers=split-backward --omnibal-verify-functions > %t.split
// RUN: FileCheck %s --check-prefix=SPLIT < %t.split
// RUN: FileCheck %s --check-prefix=HALF < %t.split

// Equal layers call the same functions; names count in the order of first use.
// CALLS-LABEL: func.func @main
// CALLS-NOT: get_parameter
// CALLS-DAG: call_layer "vision.embedding" vision @vision_0 inputs()
// CALLS-DAG: call_layer "vision.layers.0" vision @vision_1 inputs(%{{.*}}) parameters [@vision.0.norm1, {{.*}}, @vision.0.fc2]
// CALLS-DAG: call_layer "vision.layers.1" vision @vision_1 inputs(%{{.*}}) parameters [@vision.1.norm1, {{.*}}, @vision.1.fc2]
// CALLS-DAG: call_layer "language.layers.0" language @language_1
// CALLS-DAG: call_layer "language.layers.1" language @language_1
// CALLS-DAG: call_layer "head" head @head_0 {{.*}}omnibal.outputs = ["output", "loss", "prediction"]
// CALLS: return %{{.*}}#0, %{{.*}}#1, %{{.*}}#2
// CALLS-NOT: @vision_2

// The first layer trains but has no input: no gradient leaves it. Evaluation is forward itself.
// KEEP-LABEL: layer_fn @vision_0 forward(@vision_0.forward) backward(@vision_0.backward) evaluate(@vision_0.forward) inference(@vision_0.forward)
// KEEP-LABEL: func.func @vision_0.backward(
// KEEP-NOT: grad_input
// KEEP: return

// Of the fused query, key, value projection one tensor is kept, not three; of the activation what
// goes in; norms come again from their inputs; the scaled output is needed for the scale's gradient.
// The log-sum-exp is a statistic of its row: it stays in float32 where the rest lies in bfloat16.
// KEEP-LABEL: func.func @vision_1.forward(
// KEEP-SAME: %[[X:[a-z0-9]+]]: tensor<?x4x8xf32, #{{[a-z0-9]+}}> {omnibal.index = 0 : i64, omnibal.role = "input"}
// KEEP-SAME: omnibal.role = "output"}
// KEEP-COUNT-5: omnibal.role = "saved"
// KEEP-NOT: omnibal.role = "saved"
// KEEP: %[[QKV:.*]] = omnibal.linear {{.*}}x24xf32
// KEEP: %[[A:.*]], %[[LSE:.*]] = omnibal.attention
// KEEP: %[[O:.*]] = omnibal.linear
// KEEP: omnibal.mul %[[O]]
// KEEP: %[[F:.*]] = omnibal.linear
// KEEP: omnibal.gelu %[[F]]
// KEEP: return %{{.*}}, %[[QKV]], %[[A]], %[[LSE]], %[[O]], %[[F]] :
// KEEP-LABEL: func.func @vision_1.backward(
// KEEP-NOT: omnibal.attention %
// KEEP: omnibal.gelu
// KEEP: omnibal.rms_norm
// KEEP: omnibal.attention_grad
// KEEP: omnibal.layer_norm
// KEEP: return

// Gate and up are kept, not the activation nor the product.
// KEEP-LABEL: func.func @language_1.forward(
// KEEP: %[[G:.*]] = omnibal.linear {{.*}}x12xf32
// KEEP: %[[U:.*]] = omnibal.linear {{.*}}x12xf32
// KEEP: %[[S:.*]] = omnibal.silu %[[G]]
// KEEP: %[[P:.*]] = omnibal.mul %[[S]], %[[U]]
// KEEP: return
// KEEP-SAME: %[[G]], %[[U]] :

// The head's forward does nothing: its backward makes losses and gradients in one pass.
// HEAD-LABEL: func.func @head_0.forward(
// HEAD-NEXT: return
// HEAD-LABEL: func.func @head_0.backward(
// HEAD-SAME: omnibal.role = "loss"
// HEAD-NOT: linear_cross_entropy %
// HEAD: linear_cross_entropy_grad
// HEAD-NOT: linear_cross_entropy %
// HEAD-LABEL: func.func @head_0.evaluate(
// HEAD-SAME: omnibal.role = "loss"
// HEAD-SAME: omnibal.role = "prediction"
// HEAD-NOT: omnibal.linear %
// HEAD: %[[L:.*]], %[[P:.*]] = omnibal.linear_cross_entropy
// HEAD: return %[[L]], %[[P]]
// HEAD-LABEL: func.func @head_0.inference(
// HEAD-NOT: targets
// HEAD: %[[LOGITS:.*]] = omnibal.linear
// HEAD: return %[[LOGITS]]

// Nothing is kept but inputs; backward begins with the forward.
// FULL-NOT: "saved"
// FULL-LABEL: func.func @vision_1.backward(
// FULL-SAME: omnibal.role = "input"
// FULL: omnibal.attention %
// FULL: omnibal.attention_grad

// Frozen at the front: no backward up there, nothing saved; the projector's input has no gradient.
// VISION-LABEL: layer_fn @vision_1 forward(@vision_1.forward) evaluate(@vision_1.forward) inference(@vision_1.forward)
// VISION-LABEL: func.func @vision_1.forward
// VISION-NOT: "saved"
// VISION-LABEL: layer_fn @projector_0
// VISION-LABEL: func.func @projector_0.backward
// VISION-NOT: grad_input
// VISION: parameter_grad
// VISION: return

// Frozen at the back: gradients of inputs only, and nothing is kept for weight gradients.
// LANGUAGE-LABEL: func.func @language_0.backward
// LANGUAGE-NOT: embedding_grad
// LANGUAGE-LABEL: func.func @language_1.backward
// LANGUAGE-NOT: parameter_grad
// LANGUAGE-NOT: linear_weight_grad
// LANGUAGE: return

// Freezing a single parameter makes its layer another one.
// UNEQUAL: call_layer "vision.layers.0" vision @vision_1
// UNEQUAL: call_layer "vision.layers.1" vision @vision_2
// UNEQUAL: call_layer "language.layers.0" language @language_1
// UNEQUAL: call_layer "language.layers.1" language @language_1

// The halves. Nothing trains above the first layer: all of its backward can wait. Nothing of the embedding and the head waits for
// a product of its own (the head's comes out of the op that gives the loss).
// SPLIT: layer_fn @vision_0 forward(@vision_0.forward) backward(@vision_0.backward) weight_grad(@vision_0.backward) evaluate
// SPLIT: layer_fn @language_0 forward(@language_0.forward) backward(@language_0.backward) input_grad(@language_0.backward) evaluate
// SPLIT: layer_fn @head_0 forward(@head_0.forward) backward(@head_0.backward) input_grad(@head_0.backward) evaluate

// The first half has no product for a weight; the gradients of norms and biases are there. Held are the products' gradients and
// the activation's output, not the norms' outputs: these come again from what is kept, since nothing else computes them.
// HALF-LABEL: func.func @language_1.input_grad(
// HALF-NOT: linear_weight_grad
// HALF: omnibal.attention_grad
// HALF-NOT: linear_weight_grad
// HALF: return
// HALF-LABEL: func.func @language_1.weight_grad(
// HALF-SAME: {omnibal.index = 0 : i64, omnibal.role = "input"}
// HALF-SAME: omnibal.role = "saved"}
// HALF-COUNT-7: omnibal.role = "held"}
// HALF-SAME: {omnibal.index = 0 : i64, omnibal.role = "grad_output"}
// HALF-NOT: omnibal.silu
// HALF-NOT: omnibal.attention
// HALF: omnibal.rms_norm
// HALF: omnibal.rms_norm
// HALF-NOT: omnibal.rms_norm
// HALF: return

// Where plans of single steps choose what is recomputed, calls name the functions of each variant of their chunk, and each
// option is built once for equal layers; what runs without a choice keeps the first numbers.
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-loss \
// RUN:   --omnibal-plan-stages="method=search stages=2 tiles=2 tokens=16 memory-limit-bytes=100000000 schedule=per-step" \
// RUN:   --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=VARIANTS
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-attach-loss \
// RUN:   --omnibal-plan-stages="method=search parts=2 layout-price=1000 tiles=2 tokens=16 memory-limit-bytes=100000000 schedule=per-step" \
// RUN:   --omnibal-materialize-layers 2>&1 | FileCheck %s --check-prefix=LAYOUTS
// LAYOUTS: has layouts, and plans of single steps are for stages whose parts do the same; say layouts=none
// VARIANTS: call_layer "language.layers.0" language @language_1 {{.*}}omnibal.variants = [@language_1, @language_
// VARIANTS: call_layer "head" head @head_0
// VARIANTS: layer_fn @head_0
// VARIANTS: layer_fn @language_2 {{.*}} weight_grad(@language_2.weight_grad)
