// RUN: omnibal-opt %s --omnibal-raise-attention -split-input-file -verify-diagnostics

#row = affine_map<(d0, d1) -> (d0 * 4)>
#heads = affine_map<(d0, d1) -> (1, 2, d0 * 4, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d0 * 4)>
#col = affine_map<(d0, d1) -> (d0 * 4, 1)>
#pairs = affine_map<(d0, d1) -> (d0 * 4, d0 * 4)>
#square = affine_map<(d0, d1) -> (1, 2, d0 * 4, d0 * 4)>

// Earlier pictures are seen as well: no segments.
func.func @ordered(%ids: tensor<?xi64, #row> {omnibal.input = "image_segment_ids", omnibal.role = "segments"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %column = omnibal.reshape %ids : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %mask = omnibal.compare %column, %ids {predicate = 2 : i32} : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %mask, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  // expected-error @+1 {{is not that of segments; with the numbers 0, 1, 2 for 4 rows each}}
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}

// -----

#row = affine_map<(d0, d1) -> (d0 * 4)>
#heads = affine_map<(d0, d1) -> (1, 2, d0 * 4, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d0 * 4)>
#col = affine_map<(d0, d1) -> (d0 * 4, 1)>
#pairs = affine_map<(d0, d1) -> (d0 * 4, d0 * 4)>
#square = affine_map<(d0, d1) -> (1, 2, d0 * 4, d0 * 4)>


func.func @unknown(%ids: tensor<?xi64, #row> {omnibal.input = "frames", omnibal.role = "segments"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %column = omnibal.reshape %ids : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %mask = omnibal.compare %column, %ids {predicate = 0 : i32} : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %mask, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  // expected-error @+1 {{come from graph input 'frames', which is not known}}
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}
