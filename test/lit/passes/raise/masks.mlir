// RUN: omnibal-opt %s --omnibal-raise-attention | FileCheck -enable-var-scope %s

// Masks are told by what they do: the same attention with five masks.
#row = affine_map<(d0, d1) -> (d1)>
#ids = affine_map<(d0, d1) -> (1, d1)>
#heads = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#keys = affine_map<(d0, d1) -> (1, 2, 4, d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#pairs = affine_map<(d0, d1) -> (d1, d1)>
#square = affine_map<(d0, d1) -> (1, 2, d1, d1)>

// The input with the types of a prefix is recorded once.
// CHECK: module attributes {omnibal.prefix_inputs = ["b"]}

// An attention mask of ones takes nothing away. The scale leaves the scores; mask_kind 2 is causal.
// CHECK-LABEL: func.func @causal
// CHECK: %[[SEGMENTS:.*]] = omnibal.batch_value "cu_seqlens" : tensor<?xi32
// CHECK: omnibal.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[SEGMENTS]] {mask_kind = 2 : i32, {{.*}}scale = 5.000000e-01 : f64}
// CHECK-NOT: omnibal.softmax
func.func @causal(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
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

// CHECK-LABEL: func.func @sliding
// CHECK: omnibal.attention {{.*}}mask_kind = 3 : i32{{.*}}window = 3 : i64
func.func @sliding(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %w = omnibal.constant dense<3> : tensor<i64>
  %near = omnibal.compare %distance, %w {predicate = 1 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.and %back, %near : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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

// A window beyond the lengths that are tried whole.
// CHECK-LABEL: func.func @long_window
// CHECK: omnibal.attention {{.*}}mask_kind = 3 : i32{{.*}}window = 4096 : i64
func.func @long_window(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %w = omnibal.constant dense<4096> : tensor<i64>
  %near = omnibal.compare %distance, %w {predicate = 1 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.and %back, %near : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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

// Scaled scores s become 20 * tanh(s / 20) before the mask.
// CHECK-LABEL: func.func @capped
// CHECK: omnibal.attention {{.*}} {mask_kind = 2 : i32, {{.*}}scale = 5.000000e-01 : f64, softcap = 2.000000e+01 : f64
func.func @capped(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %least = omnibal.constant dense<-3.40282347E+38> : tensor<f32>
  %none = omnibal.constant dense<0.0> : tensor<f32>
  %bias = omnibal.select %back, %none, %least : (tensor<?x?xi1, #pairs>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #pairs>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %kt = omnibal.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x4x?xf32, #keys>
  %qk = omnibal.matmul %q, %kt : (tensor<1x2x?x4xf32, #heads>, tensor<1x2x4x?xf32, #keys>) -> tensor<1x2x?x?xf32, #square>
  %scaled = omnibal.mul %qk, %half : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %cap = omnibal.constant dense<20.0> : tensor<f32>
  %part = omnibal.div %scaled, %cap : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %bent = omnibal.tanh %part : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %capped = omnibal.mul %bent, %cap : (tensor<1x2x?x?xf32, #square>, tensor<f32>) -> tensor<1x2x?x?xf32, #square>
  %scores = omnibal.add %capped, %bias : (tensor<1x2x?x?xf32, #square>, tensor<?x?xf32, #pairs>) -> tensor<1x2x?x?xf32, #square>
  %p = omnibal.softmax %scores {axis = 3 : i64} : (tensor<1x2x?x?xf32, #square>) -> tensor<1x2x?x?xf32, #square>
  %y = omnibal.matmul %p, %v : (tensor<1x2x?x?xf32, #square>, tensor<1x2x?x4xf32, #heads>) -> tensor<1x2x?x4xf32, #heads>
  return %y : tensor<1x2x?x4xf32, #heads>
}

// Type 0 is seen by all tokens: the types become an operand.
// CHECK-LABEL: func.func @prefix
// CHECK: %[[TYPES:.*]] = omnibal.batch_value "b" : tensor<?xi32
// CHECK: omnibal.attention {{.*}}, %[[TYPES]] {mask_kind = 4 : i32
func.func @prefix(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %prompt = omnibal.compare %seen, %zero {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %mask = omnibal.or %back, %prompt : (tensor<?x?xi1, #pairs>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
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

// Tokens of type 0 see each other, wherever they are; others see only what comes before them.
// CHECK-LABEL: func.func @prefix_among_itself
// CHECK: omnibal.attention {{.*}} {mask_kind = 4 : i32, {{.*}}type_range = array<i64: 0, 0>
func.func @prefix_among_itself(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %prompt = omnibal.compare %seen, %zero {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %of_query = omnibal.reshape %prompt : (tensor<1x?xi1, #ids>) -> tensor<?x1xi1, #col>
  %both = omnibal.and %of_query, %prompt : (tensor<?x1xi1, #col>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.or %back, %both : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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

// The prefix sees itself whatever the window, which limits what comes before.
// CHECK-LABEL: func.func @prefix_beside_a_window
// CHECK: omnibal.attention {{.*}} {mask_kind = 4 : i32, {{.*}}type_range = array<i64: 0, 0>, window = 3 : i64
func.func @prefix_beside_a_window(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %prompt = omnibal.compare %seen, %zero {predicate = 0 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %of_query = omnibal.reshape %prompt : (tensor<1x?xi1, #ids>) -> tensor<?x1xi1, #col>
  %both = omnibal.and %of_query, %prompt : (tensor<?x1xi1, #col>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %w = omnibal.constant dense<3> : tensor<i64>
  %near = omnibal.compare %distance, %w {predicate = 1 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %past = omnibal.and %back, %near : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.or %past, %both : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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

// Neighboring tokens of types 1 and 2 are a block and see each other; all look back by a window. A block's number is
// that of the tokens before it that are in none.
// CHECK-LABEL: func.func @blocks
// CHECK: %[[TYPES:.*]] = omnibal.batch_value "b" : tensor<?xi32
// CHECK: omnibal.attention {{.*}}, %[[TYPES]] {mask_kind = 5 : i32, {{.*}}type_range = array<i64: 1, 2>, window = 4 : i64
func.func @blocks(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %three = omnibal.constant dense<3> : tensor<i64>
  %four = omnibal.constant dense<4> : tensor<i64>
  %near = omnibal.compare %distance, %four {predicate = 1 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %from = omnibal.compare %seen, %one {predicate = 4 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %to = omnibal.compare %seen, %three {predicate = 1 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %in = omnibal.and %from, %to : (tensor<1x?xi1, #ids>, tensor<1x?xi1, #ids>) -> tensor<1x?xi1, #ids>
  %out = omnibal.not %in : (tensor<1x?xi1, #ids>) -> tensor<1x?xi1, #ids>
  %outside = omnibal.cast %out : (tensor<1x?xi1, #ids>) -> tensor<1x?xi64, #ids>
  %number = omnibal.cumsum %outside {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?xi64, #ids>) -> tensor<1x?xi64, #ids>
  %number_of_query = omnibal.reshape %number : (tensor<1x?xi64, #ids>) -> tensor<?x1xi64, #col>
  %in_of_query = omnibal.reshape %in : (tensor<1x?xi1, #ids>) -> tensor<?x1xi1, #col>
  %equal = omnibal.compare %number_of_query, %number {predicate = 0 : i32} : (tensor<?x1xi64, #col>, tensor<1x?xi64, #ids>) -> tensor<?x?xi1, #pairs>
  %both = omnibal.and %in_of_query, %in : (tensor<?x1xi1, #col>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %block = omnibal.and %both, %equal : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %seen_at_all = omnibal.or %back, %block : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.and %near, %seen_at_all : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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

// A window beyond the lengths that are tried whole.
// CHECK-LABEL: func.func @blocks_far
// CHECK: omnibal.attention {{.*}} {mask_kind = 5 : i32, {{.*}}type_range = array<i64: 1, 2>, window = 1000 : i64
func.func @blocks_far(%ids: tensor<1x?xi64, #ids> {omnibal.input = "a", omnibal.role = "ids"}, %seen: tensor<1x?xi64, #ids> {omnibal.input = "b", omnibal.role = "visibility"},
    %q: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %k: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}, %v: tensor<1x2x?x4xf32, #heads> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #heads> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %rows = omnibal.reshape %iota : (tensor<?xi64, #row>) -> tensor<?x1xi64, #col>
  %distance = omnibal.sub %rows, %iota : (tensor<?x1xi64, #col>, tensor<?xi64, #row>) -> tensor<?x?xi64, #pairs>
  %back = omnibal.compare %distance, %zero {predicate = 4 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %three = omnibal.constant dense<3> : tensor<i64>
  %four = omnibal.constant dense<1000> : tensor<i64>
  %near = omnibal.compare %distance, %four {predicate = 1 : i32} : (tensor<?x?xi64, #pairs>, tensor<i64>) -> tensor<?x?xi1, #pairs>
  %from = omnibal.compare %seen, %one {predicate = 4 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %to = omnibal.compare %seen, %three {predicate = 1 : i32} : (tensor<1x?xi64, #ids>, tensor<i64>) -> tensor<1x?xi1, #ids>
  %in = omnibal.and %from, %to : (tensor<1x?xi1, #ids>, tensor<1x?xi1, #ids>) -> tensor<1x?xi1, #ids>
  %out = omnibal.not %in : (tensor<1x?xi1, #ids>) -> tensor<1x?xi1, #ids>
  %outside = omnibal.cast %out : (tensor<1x?xi1, #ids>) -> tensor<1x?xi64, #ids>
  %number = omnibal.cumsum %outside {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x?xi64, #ids>) -> tensor<1x?xi64, #ids>
  %number_of_query = omnibal.reshape %number : (tensor<1x?xi64, #ids>) -> tensor<?x1xi64, #col>
  %in_of_query = omnibal.reshape %in : (tensor<1x?xi1, #ids>) -> tensor<?x1xi1, #col>
  %equal = omnibal.compare %number_of_query, %number {predicate = 0 : i32} : (tensor<?x1xi64, #col>, tensor<1x?xi64, #ids>) -> tensor<?x?xi1, #pairs>
  %both = omnibal.and %in_of_query, %in : (tensor<?x1xi1, #col>, tensor<1x?xi1, #ids>) -> tensor<?x?xi1, #pairs>
  %block = omnibal.and %both, %equal : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %seen_at_all = omnibal.or %back, %block : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
  %mask = omnibal.and %near, %seen_at_all : (tensor<?x?xi1, #pairs>, tensor<?x?xi1, #pairs>) -> tensor<?x?xi1, #pairs>
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
