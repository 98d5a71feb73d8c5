// RUN: omnibal-opt %s --split-input-file --omnibal-raise-recurrences | FileCheck %s
// RUN: omnibal-opt %s --split-input-file --omnibal-verify-raised --verify-diagnostics

// A state that passes from token to token starts again with every sample of a packed row.
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#rows = affine_map<(d0, d1) -> (1, 2, d1)>
#logits = affine_map<(d0, d1) -> (1, d1, 8)>
// CHECK-LABEL: func.func @tokens
// CHECK: %[[BORDERS:.*]] = omnibal.batch_value "cu_seqlens" : tensor<?xi32
// CHECK: omnibal.gated_delta %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[BORDERS]]
func.func @tokens() -> tensor<1x?x8xf32, #logits> {
  %q = omnibal.batch_value "a" : tensor<1x2x?x4xf32, #heads>
  %g = omnibal.batch_value "b" : tensor<1x2x?xf32, #rows>
  // expected-error @below {{carries its state from one sample to the next}}
  %y = omnibal.gated_delta %q, %q, %q, %g, %g {scale = 0.5 : f64} : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<1x2x?x4xf32, #heads>, tensor<1x2x?xf32, #rows>, tensor<1x2x?xf32, #rows>) -> tensor<1x2x?x4xf32, #heads>
  %z = omnibal.reshape %y : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x?x8xf32, #logits>
  return %z : tensor<1x?x8xf32, #logits>
}

// -----

// One of a picture's rows, of which there are as many in every picture, is of each picture by itself.
#heads = affine_map<(d0, d1) -> (d0, 2, 6, 4)>
#rows = affine_map<(d0, d1) -> (d0, 2, 6)>
// CHECK-LABEL: func.func @pictures
// CHECK-NOT: cu_seqlens
// CHECK: omnibal.gated_delta
func.func @pictures() -> tensor<?x2x6x4xf32, #heads> {
  %q = omnibal.batch_value "a" : tensor<?x2x6x4xf32, #heads>
  %g = omnibal.batch_value "b" : tensor<?x2x6xf32, #rows>
  %y = omnibal.gated_delta %q, %q, %q, %g, %g {scale = 0.5 : f64} : (tensor<?x2x6x4xf32, #heads>, tensor<?x2x6x4xf32, #heads>, tensor<?x2x6x4xf32, #heads>, tensor<?x2x6xf32, #rows>, tensor<?x2x6xf32, #rows>) -> tensor<?x2x6x4xf32, #heads>
  return %y : tensor<?x2x6x4xf32, #heads>
}
