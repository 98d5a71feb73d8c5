// RUN: omnibal-opt %s --omnibal-raise-attention --split-input-file --verify-diagnostics | FileCheck -enable-var-scope %s

// Within a picture a mask that hides nothing is none, as a sum with zeros and as a choice of everything.
#heads = affine_map<(d0, d1) -> (d0, 2, 3, 4)>
#keys = affine_map<(d0, d1) -> (d0, 2, 4, 3)>
#square = affine_map<(d0, d1) -> (d0, 2, 3, 3)>
#mask = affine_map<(d0, d1) -> (d0, 1, 3, 3)>
#lse = affine_map<(d0, d1) -> (d0, 2, 3)>
// CHECK-LABEL: func.func @zeros
// CHECK: omnibal.attention {{.*}}mask_kind = 1 : i32
// CHECK-NOT: softmax
func.func @zeros(%q: tensor<?x2x3x4xf32, #heads> {omnibal.role = "image"}) -> tensor<?x2x3x4xf32, #heads> {
  %zeros = omnibal.constant dense<0.0> : tensor<1x1x3x3xf32>
  %mask = omnibal.expand %zeros : (tensor<1x1x3x3xf32>) -> tensor<?x1x3x3xf32, #mask>
  %kt = omnibal.transpose %q {permutation = array<i64: 0, 1, 3, 2>} : (tensor<?x2x3x4xf32, #heads>) -> tensor<?x2x4x3xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<?x2x3x4xf32, #heads>, tensor<?x2x4x3xf32, #keys>) -> tensor<?x2x3x3xf32, #square>
  %scores = omnibal.add %qk, %mask : (tensor<?x2x3x3xf32, #square>, tensor<?x1x3x3xf32, #mask>) -> tensor<?x2x3x3xf32, #square>
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<?x2x3x3xf32, #square>) -> tensor<?x2x3x3xf32, #square>
  %y = omnibal.matmul %p, %q : (tensor<?x2x3x3xf32, #square>, tensor<?x2x3x4xf32, #heads>) -> tensor<?x2x3x4xf32, #heads>
  return %y : tensor<?x2x3x4xf32, #heads>
}

// CHECK-LABEL: func.func @everything
// CHECK: omnibal.attention %arg0, %arg0, %arg0 {mask_kind = 1 : i32
func.func @everything(%q: tensor<?x2x3x4xf32, #heads> {omnibal.role = "image"}) -> tensor<?x2x3x4xf32, #heads> {
  %all = omnibal.constant dense<true> : tensor<1x1x3x3xi1>
  %mask = omnibal.expand %all : (tensor<1x1x3x3xi1>) -> tensor<?x1x3x3xi1, #mask>
  %y, %l = omnibal.attention %q, %q, %q, %mask {mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<?x2x3x4xf32, #heads>, tensor<?x2x3x4xf32, #heads>, tensor<?x2x3x4xf32, #heads>, tensor<?x1x3x3xi1, #mask>) -> (tensor<?x2x3x4xf32, #heads>, tensor<?x2x3xf32, #lse>)
  return %y : tensor<?x2x3x4xf32, #heads>
}

// -----

// One that hides something is still refused.
#heads = affine_map<(d0, d1) -> (d0, 2, 3, 4)>
#lse = affine_map<(d0, d1) -> (d0, 2, 3)>
func.func @something(%q: tensor<?x2x3x4xf32, #heads> {omnibal.role = "image"}, %mask: tensor<1x1x3x3xi1> {omnibal.role = "visibility"}) -> tensor<?x2x3x4xf32, #heads> {
  // expected-error@+1 {{a mask on attention within a picture is not supported}}
  %y, %l = omnibal.attention %q, %q, %q, %mask {mask_kind = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<?x2x3x4xf32, #heads>, tensor<?x2x3x4xf32, #heads>, tensor<?x2x3x4xf32, #heads>, tensor<1x1x3x3xi1>) -> (tensor<?x2x3x4xf32, #heads>, tensor<?x2x3xf32, #lse>)
  return %y : tensor<?x2x3x4xf32, #heads>
}
