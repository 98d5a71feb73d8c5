// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-embedding-noise="alpha=4" | FileCheck %s --check-prefix=NOISE
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text.*[.](q|up)$|vision.*fc|projector.fc rank=2 alpha=2 dropout=0.75" | FileCheck %s --check-prefix=DROPOUT
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-embedding-noise --omnibal-add-adapters="match=text|vision dropout=0.5" --omnibal-verify-layers --omnibal-attach-loss --omnibal-materialize-layers --omnibal-verify-functions | FileCheck %s --check-prefix=FUNCTIONS
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text dropout=0" | FileCheck %s --check-prefix=NONE
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text dropout=1" 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-adapters="match=text dropout=0.5 dora" 2>&1 | FileCheck %s --check-prefix=DORA
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-add-embedding-noise="alpha=0" 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: sed 's/batch_value "input_ids"/batch_value "other_ids"/' %inputs/form-l.mlir > %t.mlir
// RUN: not omnibal-opt %t.mlir --omnibal-add-embedding-noise 2>&1 | FileCheck %s --check-prefix=NOWHERE

// +-4 / sqrt(L 8), for a sample of L tokens, and nothing where the key is 0; pictures come after it.
// NOISE: %[[WORDS:.*]] = omnibal.embedding
// NOISE: %[[KEYS:.*]] = omnibal.reshape {{.*}} -> tensor<?x1xi32,
// NOISE: %[[U:.*]] = omnibal.random_uniform %[[KEYS]], %{{.*}}, %{{.*}} {stream = 0 : i32}
// NOISE: %[[OFF:.*]] = omnibal.compare %[[KEYS]]
// NOISE: omnibal.batch_value "sample_tokens"
// NOISE: omnibal.rsqrt
// NOISE-NEXT: omnibal.constant dense<1.41421354>
// NOISE: %[[BOUND:.*]] = omnibal.select %[[OFF]]
// NOISE: %[[NOISE:.*]] = omnibal.mul %{{.*}}, %[[BOUND]]
// NOISE-NEXT: %[[SUM:.*]] = omnibal.add %[[WORDS]], %[[NOISE]]
// NOISE: %[[ROW:.*]] = omnibal.reshape %[[SUM]]
// NOISE: omnibal.image_merge %[[ROW]]

// Tiles have keys for each of their rows, and tokens for themselves. Draws of a layer are numbered; equal layers draw alike.
// DROPOUT: omnibal.layer "vision.layers.0"
// DROPOUT: omnibal.batch_value "image_random_keys.4" : tensor<?xi32,
// DROPOUT: omnibal.random_uniform {{.*}} {stream = 0 : i32} : (tensor<?x4x1xi32, {{.*}}>, tensor<8xi32>, tensor<i32>) -> tensor<?x4x8xf32,
// DROPOUT: omnibal.random_uniform {{.*}} {stream = 1 : i32} : {{.*}} -> tensor<?x4x16xf32,
// DROPOUT: omnibal.layer "projector"
// DROPOUT: omnibal.batch_value "image_random_keys.2"
// DROPOUT: omnibal.layer "language.layers.0"
// DROPOUT: %[[Y:.*]] = omnibal.linear %[[X:.*]], %{{.*}}, %{{.*}} : (tensor<1x?x8xf32, {{.*}}>, tensor<8x8xf32>, tensor<8xf32>)
// DROPOUT: omnibal.batch_value "random_keys"
// DROPOUT: omnibal.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]>
// DROPOUT: %[[U:.*]] = omnibal.random_uniform
// DROPOUT: omnibal.constant dense<7.500000e-01>
// DROPOUT: %[[LIMIT:.*]] = omnibal.select
// DROPOUT: omnibal.constant dense<4.000000e+00>
// DROPOUT: %[[KEPT:.*]] = omnibal.compare %[[U]], %[[LIMIT]] {predicate = 4 : i32}
// DROPOUT: %[[MASK:.*]] = omnibal.select %[[KEPT]]
// DROPOUT: %[[DROPPED:.*]] = omnibal.mul %[[X]], %[[MASK]]
// DROPOUT-NEXT: omnibal.linear %[[DROPPED]], %{{.*}} -> tensor<1x?x2xf32,
// DROPOUT: omnibal.layer "language.layers.1"
// DROPOUT: omnibal.random_uniform {{.*}} {stream = 0 : i32}

// FUNCTIONS-DAG: omnibal.layer_fn @vision_1 forward
// FUNCTIONS-DAG: omnibal.layer_fn @language_1 forward
// FUNCTIONS-NOT: omnibal.layer_fn @language_2

// NONE-NOT: random_uniform

// ALL: error: omnibal-add-adapters: dropout must be in [0, 1)
// DORA: error: omnibal-add-adapters: dropout goes without dora
// ALPHA: error: omnibal-add-embedding-noise: alpha must be a number above 0
// NOWHERE: error: omnibal-add-embedding-noise: no layer embeds input_ids
