// The model's own dropout: behind projections of vision blocks and all of language's, of different ratios.
// RUN: sed -e 's/%ao = omnibal.linear \(.*\)/%aoo = omnibal.linear \1\n    %ao = omnibal.dropout %aoo {ratio = 0.75 : f64} : (!h) -> !h/' -e 's/%d = omnibal.linear \(.*\)/%dd = omnibal.linear \1\n    %d = omnibal.dropout %dd {ratio = 0.5 : f64} : (!h) -> !h/' -e 's/%os = omnibal.mul \(.*\)/%oo = omnibal.mul \1\n    %os = omnibal.dropout %oo {ratio = 0.5 : f64} : (!v8) -> !v8/' %inputs/form-l.mlir > %t.mlir
// RUN: omnibal-opt %t.mlir --omnibal-draw-dropout | FileCheck %s
// RUN: omnibal-opt %t.mlir --omnibal-draw-dropout --omnibal-add-adapters="match=text.*[.]o$ rank=2 dropout=0.5" | FileCheck %s --check-prefix=ADAPTERS
// RUN: omnibal-opt %t.mlir --omnibal-draw-dropout --omnibal-verify-layers --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %inputs/form-l.mlir -o %t.without.mlir
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-draw-dropout -o %t.same.mlir
// RUN: cmp %t.without.mlir %t.same.mlir
// RUN: sed 's/%0 = omnibal.reshape %x : (!v8) -> !vf/%y = omnibal.slice %x {begin = array<i64: 0, 0, 0>, step = array<i64: 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v8) -> !v8\n    %z = omnibal.dropout %bias {ratio = 0.5 : f64} : (tensor<8xf32>) -> tensor<8xf32>\n    %xz = omnibal.add %x, %z : (!v8, tensor<8xf32>) -> !v8\n    %0 = omnibal.reshape %xz : (!v8) -> !vf/' %inputs/form-l.mlir > %t.rows.mlir
// RUN: not omnibal-opt %t.rows.mlir --omnibal-draw-dropout 2>&1 | FileCheck %s --check-prefix=ROWS

// Draws of a layer are numbered, and equal layers draw alike but for the layer's number; nothing is left of the op.
// CHECK-NOT: omnibal.dropout
// CHECK: omnibal.layer "vision.layers.0"
// CHECK: omnibal.batch_value "image_random_keys.4" : tensor<?xi32,
// CHECK: omnibal.batch_value "layer_number"
// CHECK: omnibal.random_uniform {{.*}} {stream = 0 : i32} : (tensor<?x4x1xi32, {{.*}}>, tensor<8xi32>, tensor<i32>) -> tensor<?x4x8xf32,
// CHECK: omnibal.layer "vision.layers.1"
// CHECK: omnibal.random_uniform {{.*}} {stream = 0 : i32}
// CHECK: omnibal.layer "language.layers.0"
// CHECK: omnibal.attention
// CHECK: %[[Y:.*]] = omnibal.linear
// CHECK: omnibal.batch_value "random_keys"
// CHECK: %[[U:.*]] = omnibal.random_uniform {{.*}} {stream = 0 : i32}
// CHECK: omnibal.constant dense<7.500000e-01>
// CHECK: %[[LIMIT:.*]] = omnibal.select
// CHECK: omnibal.constant dense<4.000000e+00>
// CHECK: %[[KEPT:.*]] = omnibal.compare %[[U]], %[[LIMIT]] {predicate = 4 : i32}
// CHECK: %[[MASK:.*]] = omnibal.select %[[KEPT]]
// CHECK: %[[DROPPED:.*]] = omnibal.mul %[[Y]], %[[MASK]]
// CHECK-NEXT: omnibal.add %{{.*}}, %[[DROPPED]]
// CHECK: omnibal.random_uniform {{.*}} {stream = 1 : i32}
// CHECK: omnibal.constant dense<5.000000e-01>
// CHECK: omnibal.layer "language.layers.1"
// CHECK: omnibal.random_uniform {{.*}} {stream = 0 : i32}
// CHECK: omnibal.random_uniform {{.*}} {stream = 1 : i32}
// CHECK-NOT: omnibal.dropout

// Adapters draw after the model.
// ADAPTERS: omnibal.layer "language.layers.0"
// ADAPTERS-DAG: {stream = 0 : i32}
// ADAPTERS-DAG: {stream = 1 : i32}
// ADAPTERS-DAG: {stream = 2 : i32}
// ADAPTERS: omnibal.layer "language.layers.1"

// Equal layers share functions, and backward makes the same numbers again.
// FUNCTIONS: omnibal.layer_fn @vision_1 forward
// FUNCTIONS: func.func @vision_1.backward
// FUNCTIONS: omnibal.random_uniform {{.*}} {stream = 0 : i32}
// FUNCTIONS: func.func @language_1.backward
// FUNCTIONS: omnibal.random_uniform {{.*}} {stream = 1 : i32}
// FUNCTIONS: omnibal.random_uniform {{.*}} {stream = 0 : i32}
// FUNCTIONS: func.func @language_1.evaluate
// FUNCTIONS-NOT: omnibal.layer_fn @language_2

// ROWS: error: nothing random can be drawn for a value of type 'tensor<8xf32>': its rows are neither the tokens nor those of the tiles
