// RUN: omnibal-opt %s --omnibal-classify-inputs --omnibal-raise-attention -split-input-file | FileCheck -enable-var-scope %s

// Tokens that attend to the three rows of each picture, by an input that says which pictures they see. Tokens that see none have no
// masked scores, and a factor of 0 further on.
#row = affine_map<(d0, d1) -> (1, d1)>
#seen = affine_map<(d0, d1) -> (1, d1, d0)>
#seen4 = affine_map<(d0, d1) -> (1, d1, d0, 1)>
#rows = affine_map<(d0, d1) -> (1, d1, d0, 3)>
#mask = affine_map<(d0, d1) -> (1, 1, d1, d0 * 3)>
#any = affine_map<(d0, d1) -> (1, 1, d1, 1)>
#text = affine_map<(d0, d1) -> (1, d1, 8)>
#split = affine_map<(d0, d1) -> (1, d1, 4, 2)>
#q = affine_map<(d0, d1) -> (1, 4, d1, 2)>
#pixels = affine_map<(d0, d1) -> (d0, 3, 2, 2)>
#features = affine_map<(d0, d1) -> (1, d0 * 3, 2, 2)>
#k = affine_map<(d0, d1) -> (1, 2, d0 * 3, 2)>
#k5 = affine_map<(d0, d1) -> (1, 2, 1, d0 * 3, 2)>
#r5 = affine_map<(d0, d1) -> (1, 2, 2, d0 * 3, 2)>
#r = affine_map<(d0, d1) -> (1, 4, d0 * 3, 2)>
#kt = affine_map<(d0, d1) -> (1, 4, 2, d0 * 3)>
#scores = affine_map<(d0, d1) -> (1, 4, d1, d0 * 3)>
#factor = affine_map<(d0, d1) -> (1, d1, 1)>
// CHECK-LABEL: func.func @main
// CHECK-SAME: omnibal.role = "ids"
// CHECK-SAME: omnibal.role = "seen"
// CHECK-SAME: omnibal.role = "image"
// CHECK-DAG: %[[B:.*]] = omnibal.batch_value "image_begins"
// CHECK-DAG: %[[E:.*]] = omnibal.batch_value "image_ends"
// CHECK: %[[Y:.*]], %{{.*}} = omnibal.cross_attention %{{.*}}, %[[K:.*]], %[[K]], %[[B]], %[[E]] {rows = 3 : i64, scale = 5.000000e-01 : f64} : (tensor<1x4x?x2xf32, {{.*}}>, tensor<1x2x?x2xf32
// CHECK-NOT: omnibal.softmax
// CHECK: %[[S:.*]] = omnibal.batch_value "image_seen"
// CHECK: %[[C:.*]] = omnibal.cast %[[S]]
// CHECK: %[[F:.*]] = omnibal.reshape %[[C]]
// CHECK: omnibal.mul %{{.*}}, %[[F]]
module {
  omnibal.parameter @table : tensor<9x8xf32>
  func.func @main(%ids: tensor<1x?xi64, #row> {omnibal.input = "input_ids"}, %seen: tensor<1x?x?xi64, #seen> {omnibal.input = "cross_attention_mask"},
      %pixels: tensor<?x3x2x2xf32, #pixels> {omnibal.input = "pixel_values"}) -> tensor<1x?x8xf32, #text> {
    %table = omnibal.get_parameter @table : tensor<9x8xf32>
    %x = omnibal.embedding %table, %ids : (tensor<9x8xf32>, tensor<1x?xi64, #row>) -> tensor<1x?x8xf32, #text>
    %float = omnibal.cast %seen : (tensor<1x?x?xi64, #seen>) -> tensor<1x?x?xf32, #seen>
    %one = omnibal.constant dense<1.0> : tensor<f32>
    %zero = omnibal.constant dense<0.0> : tensor<f32>
    %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
    %column = omnibal.reshape %float : (tensor<1x?x?xf32, #seen>) -> tensor<1x?x?x1xf32, #seen4>
    %each = omnibal.expand %column : (tensor<1x?x?x1xf32, #seen4>) -> tensor<1x?x?x3xf32, #rows>
    %flat = omnibal.reshape %each : (tensor<1x?x?x3xf32, #rows>) -> tensor<1x1x?x?xf32, #mask>
    %hidden = omnibal.sub %one, %flat : (tensor<f32>, tensor<1x1x?x?xf32, #mask>) -> tensor<1x1x?x?xf32, #mask>
    %hides = omnibal.cast %hidden : (tensor<1x1x?x?xf32, #mask>) -> tensor<1x1x?x?xi1, #mask>
    %bias = omnibal.select %hides, %least, %zero : (tensor<1x1x?x?xi1, #mask>, tensor<f32>, tensor<f32>) -> tensor<1x1x?x?xf32, #mask>
    %any = omnibal.reduce %flat {kind = 2 : i32, axes = array<i64: 3>, keepdims} : (tensor<1x1x?x?xf32, #mask>) -> tensor<1x1x?x1xf32, #any>
    %mask = omnibal.mul %bias, %any : (tensor<1x1x?x?xf32, #mask>, tensor<1x1x?x1xf32, #any>) -> tensor<1x1x?x?xf32, #mask>
    %xs = omnibal.reshape %x : (tensor<1x?x8xf32, #text>) -> tensor<1x?x4x2xf32, #split>
    %q = omnibal.transpose %xs {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x4x2xf32, #split>) -> tensor<1x4x?x2xf32, #q>
    %f = omnibal.reshape %pixels : (tensor<?x3x2x2xf32, #pixels>) -> tensor<1x?x2x2xf32, #features>
    %k = omnibal.transpose %f {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x2x2xf32, #features>) -> tensor<1x2x?x2xf32, #k>
    %k5 = omnibal.reshape %k : (tensor<1x2x?x2xf32, #k>) -> tensor<1x2x1x?x2xf32, #k5>
    %r5 = omnibal.expand %k5 : (tensor<1x2x1x?x2xf32, #k5>) -> tensor<1x2x2x?x2xf32, #r5>
    %r = omnibal.reshape %r5 : (tensor<1x2x2x?x2xf32, #r5>) -> tensor<1x4x?x2xf32, #r>
    %half = omnibal.constant dense<0.5> : tensor<f32>
    %kt = omnibal.transpose %r {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x4x?x2xf32, #r>) -> tensor<1x4x2x?xf32, #kt>
    %qk = omnibal.matmul %q, %kt : (tensor<1x4x?x2xf32, #q>, tensor<1x4x2x?xf32, #kt>) -> tensor<1x4x?x?xf32, #scores>
    %scaled = omnibal.mul %qk, %half : (tensor<1x4x?x?xf32, #scores>, tensor<f32>) -> tensor<1x4x?x?xf32, #scores>
    %masked = omnibal.add %scaled, %mask : (tensor<1x4x?x?xf32, #scores>, tensor<1x1x?x?xf32, #mask>) -> tensor<1x4x?x?xf32, #scores>
    %p = omnibal.softmax %masked {axis = 3 : i64} : (tensor<1x4x?x?xf32, #scores>) -> tensor<1x4x?x?xf32, #scores>
    %y = omnibal.matmul %p, %r : (tensor<1x4x?x?xf32, #scores>, tensor<1x4x?x2xf32, #r>) -> tensor<1x4x?x2xf32, #q>
    %yt = omnibal.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x?x2xf32, #q>) -> tensor<1x?x4x2xf32, #split>
    %ys = omnibal.reshape %yt : (tensor<1x?x4x2xf32, #split>) -> tensor<1x?x8xf32, #text>
    %factor = omnibal.reshape %any : (tensor<1x1x?x1xf32, #any>) -> tensor<1x?x1xf32, #factor>
    %z = omnibal.mul %ys, %factor : (tensor<1x?x8xf32, #text>, tensor<1x?x1xf32, #factor>) -> tensor<1x?x8xf32, #text>
    return %z : tensor<1x?x8xf32, #text>
  }
}
