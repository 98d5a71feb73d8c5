// RUN: omnibal-opt %s --omnibal-raise-attention -split-input-file -verify-diagnostics | FileCheck %s

// A mask made by arithmetic, and rows that see nothing set to zero afterwards: no row of a sample is one.
#row = affine_map<(d0, d1) -> (d1)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#pairs = affine_map<(d0, d1) -> (d1, d1)>
#square = affine_map<(d0, d1) -> (1, 2, d1, d1)>
// CHECK-LABEL: func.func @guarded
// CHECK-NOT: omnibal.select
// CHECK: omnibal.attention {{.*}}mask_kind = 2 : i32
// CHECK-NOT: omnibal.select
// CHECK: return
func.func @guarded(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %on = omnibal.cast %seen : (tensor<1x?xi64, #ids>) -> tensor<1x?xi1, #ids>
  %mask = omnibal.and %back, %on : (tensor<?x?xi1, #pairs>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %hidden = omnibal.not %mask : (tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %hiddenf = omnibal.cast %hidden : (tensor<?x?xi1, #pairs>) -> tensor<?x?xf32, #pairs>
  %bias = omnibal.mul %hiddenf, %least : (tensor<?x?xf32, #pairs>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %seenf = omnibal.cast %mask : (tensor<?x?xi1, #pairs>) -> tensor<?x?xf32, #pairs>
  %count = omnibal.reduce %seenf {axes = array<i64: 1>, keepdims, kind = 0 : i32} : (tensor<?x?xf32, #pairs>) -> tensor<?x1xf32, #col>
  %limit = omnibal.constant dense<1.0> : tensor<f32>
  %empty = omnibal.compare %count, %limit {predicate = 1 : i32} : (tensor<?x1xf32, #col>, tensor<f32>) -> tensor<?x1xi1, #col>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  %z = omnibal.select %empty, %none, %y : (tensor<?x1xi1, #col>, tensor<f32>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %z : tensor<1x2x?x4xf32, #heads>
}

// -----

// This one also blanks the first token, which sees only itself.
#row = affine_map<(d0, d1) -> (d1)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#pairs = affine_map<(d0, d1) -> (d1, d1)>
#square = affine_map<(d0, d1) -> (1, 2, d1, d1)>
func.func @blanked(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %on = omnibal.cast %seen : (tensor<1x?xi64, #ids>) -> tensor<1x?xi1, #ids>
  %mask = omnibal.and %back, %on : (tensor<?x?xi1, #pairs>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %hidden = omnibal.not %mask : (tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %hiddenf = omnibal.cast %hidden : (tensor<?x?xi1, #pairs>) -> tensor<?x?xf32, #pairs>
  %bias = omnibal.mul %hiddenf, %least : (tensor<?x?xf32, #pairs>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %seenf = omnibal.cast %mask : (tensor<?x?xi1, #pairs>) -> tensor<?x?xf32, #pairs>
  %count = omnibal.reduce %seenf {axes = array<i64: 1>, keepdims, kind = 0 : i32} : (tensor<?x?xf32, #pairs>) -> tensor<?x1xf32, #col>
  %limit = omnibal.constant dense<2.0> : tensor<f32>
  %empty = omnibal.compare %count, %limit {predicate = 1 : i32} : (tensor<?x1xf32, #col>, tensor<f32>) -> tensor<?x1xi1, #col>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %scaled, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  // expected-error @+1 {{changes values by masks or positions (with 1 tokens that all count), which is not supported}}
  %z = omnibal.select %empty, %none, %y : (tensor<?x1xi1, #col>, tensor<f32>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %z : tensor<1x2x?x4xf32, #heads>
}
