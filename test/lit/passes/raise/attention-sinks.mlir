// RUN: omnibal-opt %s --split-input-file --omnibal-raise-attention | FileCheck %s -enable-var-scope

// A logit of each head beside the scores, which no value belongs to: softmax over both, the last column dropped. The
// largest score is taken away first, which changes nothing.
#row = affine_map<(d0, d1) -> (d1)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#pairs = affine_map<(d0, d1) -> (d1, d1)>
#square = affine_map<(d0, d1) -> (1, 2, d1, d1)>
#rows = affine_map<(d0, d1) -> (1, 2, d1, 1)>
#wide = affine_map<(d0, d1) -> (1, 2, d1, d1 + 1)>
omnibal.parameter @sinks : tensor<2xf32> {file = "w", offset = 0 : i64, length = 8 : i64}
// CHECK-LABEL: func.func @sinks_of_heads
// CHECK: %[[P:.*]] = omnibal.get_parameter @sinks
// CHECK: %[[SINKS:.*]] = omnibal.reshape %{{.*}} -> tensor<2xf32>
// CHECK: omnibal.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[SINKS]] {mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>, scale = 5.000000e-01 : f64}
// CHECK-NOT: omnibal.softmax
func.func @sinks_of_heads(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %place = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %past = omnibal.compare %iota, %place {predicate = 2 : i32} : (tensor<?xi64, #row>, tensor<?x1xi64, #col>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %past, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %s = omnibal.get_parameter @sinks : tensor<2xf32>
  %s4 = omnibal.reshape %s : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %column = omnibal.expand %s4 : (tensor<1x2x1x1xf32>) -> tensor<1x2x?x1xf32, #rows>
  %joined = omnibal.concat %scores, %column {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %top = omnibal.reduce %joined {axes = array<i64: 3>, keepdims, kind = 2 : i32} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x1xf32, #rows>
  %shifted = omnibal.sub %joined, %top : (tensor<1x2x?x?xf32, #wide>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %p = omnibal.softmax %shifted {axis = 3 : i64} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #wide>
  %kept = omnibal.slice %p {begin = array<i64: 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %kept, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}

// -----

// Where the first column is dropped, or a sink is another for every row, it is no attention with sinks.
#row = affine_map<(d0, d1) -> (d1)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#pairs = affine_map<(d0, d1) -> (d1, d1)>
#square = affine_map<(d0, d1) -> (1, 2, d1, d1)>
#rows = affine_map<(d0, d1) -> (1, 2, d1, 1)>
#wide = affine_map<(d0, d1) -> (1, 2, d1, d1 + 1)>
omnibal.parameter @sinks : tensor<2xf32> {file = "w", offset = 0 : i64, length = 8 : i64}
// CHECK-LABEL: func.func @first_column
// CHECK-NOT: omnibal.attention
// CHECK: omnibal.softmax
func.func @first_column(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %place = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %past = omnibal.compare %iota, %place {predicate = 2 : i32} : (tensor<?xi64, #row>, tensor<?x1xi64, #col>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %past, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %s = omnibal.get_parameter @sinks : tensor<2xf32>
  %s4 = omnibal.reshape %s : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %column = omnibal.expand %s4 : (tensor<1x2x1x1xf32>) -> tensor<1x2x?x1xf32, #rows>
  %joined = omnibal.concat %scores, %column {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %top = omnibal.reduce %joined {axes = array<i64: 3>, keepdims, kind = 2 : i32} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x1xf32, #rows>
  %shifted = omnibal.sub %joined, %top : (tensor<1x2x?x?xf32, #wide>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %p = omnibal.softmax %shifted {axis = 3 : i64} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #wide>
  %kept = omnibal.slice %p {begin = array<i64: 0, 0, 0, 1>, step = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %kept, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}

// CHECK-LABEL: func.func @of_rows
// CHECK-NOT: omnibal.attention
// CHECK: omnibal.softmax
func.func @of_rows(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %place = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %past = omnibal.compare %iota, %place {predicate = 2 : i32} : (tensor<?xi64, #row>, tensor<?x1xi64, #col>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %past, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %column = omnibal.reduce %q {axes = array<i64: 3>, keepdims, kind = 0 : i32} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x1xf32, #rows>
  %joined = omnibal.concat %scores, %column {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %top = omnibal.reduce %joined {axes = array<i64: 3>, keepdims, kind = 2 : i32} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x1xf32, #rows>
  %shifted = omnibal.sub %joined, %top : (tensor<1x2x?x?xf32, #wide>, tensor<1x2x?x1xf32, #rows>) -> tensor<1x2x?x?xf32, #wide>
  %p = omnibal.softmax %shifted {axis = 3 : i64} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #wide>
  %kept = omnibal.slice %p {begin = array<i64: 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x?xf32, #wide>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %kept, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}
