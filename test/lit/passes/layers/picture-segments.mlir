// RUN: omnibal-opt %s --omnibal-raise-attention | FileCheck -enable-var-scope %s

// Attention among the patches of a picture or a window: the mask compares numbers of segments, the
// kernel takes their borders, V + 1 of them.
#row = affine_map<(d0, d1) -> (d0 * 4)>
#heads = affine_map<(d0, d1) -> (1, 2, d0 * 4, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d0 * 4)>
#col = affine_map<(d0, d1) -> (d0 * 4, 1)>
#pairs = affine_map<(d0, d1) -> (d0 * 4, d0 * 4)>
#square = affine_map<(d0, d1) -> (1, 2, d0 * 4, d0 * 4)>

// CHECK-LABEL: func.func @pictures
// CHECK: %[[BORDERS:.*]] = omnibal.batch_value "image_segment_cu_seqlens" : tensor<?xi32
// CHECK: omnibal.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[BORDERS]] {mask_kind = 1 : i32
// CHECK-NOT: omnibal.softmax
func.func @pictures(%ids: tensor<?xi64, #row> {omnibal.input = "image_segment_ids", omnibal.role = "segments"},
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
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}

// CHECK-LABEL: func.func @windows
// CHECK: %[[BORDERS:.*]] = omnibal.batch_value "image_window_cu_seqlens" : tensor<?xi32
// CHECK: omnibal.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[BORDERS]] {mask_kind = 1 : i32
// CHECK-NOT: omnibal.softmax
func.func @windows(%ids: tensor<?xi64, #row> {omnibal.input = "image_window_ids", omnibal.role = "segments"},
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
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}
