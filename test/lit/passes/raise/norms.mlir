// RUN: omnibal-opt %s --omnibal-raise-norms | FileCheck -enable-var-scope %s

omnibal.parameter @w : tensor<8xf32>
omnibal.parameter @b : tensor<8xf32>

// The weight comes first, the root is a reciprocal of sqrt.
// CHECK-LABEL: func.func @rms
// CHECK-DAG: %[[W:.*]] = omnibal.get_parameter @w
// CHECK: %[[Y:.*]] = omnibal.rms_norm %arg0, %[[W]] {axis = 1 : i64, epsilon = 9.99999997{{.*}}E-7 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @rms(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = omnibal.get_parameter @w : tensor<8xf32>
  %two = omnibal.constant dense<2.0> : tensor<f32>
  %eps = omnibal.constant dense<1.0e-6> : tensor<f32>
  %0 = omnibal.pow %x, %two : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = omnibal.reduce %0 {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = omnibal.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = omnibal.sqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = omnibal.reciprocal %3 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %5 = omnibal.mul %x, %4 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %6 = omnibal.mul %w, %5 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}

// (1 + w) stays elementwise, behind a norm without scale.
// CHECK-LABEL: func.func @one_plus
// CHECK: %[[N:.*]] = omnibal.rms_norm %arg0 {axis = 1 : i64
// CHECK: omnibal.mul %[[N]]
func.func @one_plus(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = omnibal.get_parameter @w : tensor<8xf32>
  %one = omnibal.constant dense<1.0> : tensor<f32>
  %eps = omnibal.constant dense<1.0e-6> : tensor<f32>
  %w1 = omnibal.add %w, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %0 = omnibal.mul %x, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = omnibal.reduce %0 {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = omnibal.add %eps, %1 : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %3 = omnibal.rsqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = omnibal.mul %3, %x : (tensor<2x1xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = omnibal.mul %4, %w1 : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %5 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @layer
// CHECK: %[[Y:.*]] = omnibal.layer_norm %arg0, %{{.*}}, %{{.*}} {axis = 1 : i64
// CHECK-NEXT: return %[[Y]]
func.func @layer(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = omnibal.get_parameter @w : tensor<8xf32>
  %b = omnibal.get_parameter @b : tensor<8xf32>
  %two = omnibal.constant dense<2.0> : tensor<f32>
  %eps = omnibal.constant dense<1.0e-5> : tensor<f32>
  %m = omnibal.reduce %x {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %c = omnibal.sub %x, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %0 = omnibal.pow %c, %two : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = omnibal.reduce %0 {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = omnibal.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = omnibal.sqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = omnibal.div %c, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %5 = omnibal.mul %4, %w : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %6 = omnibal.add %b, %5 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}
