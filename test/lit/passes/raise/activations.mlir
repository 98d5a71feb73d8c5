// RUN: omnibal-opt %s --omnibal-raise-activations | FileCheck -enable-var-scope %s

// CHECK-LABEL: func.func @erf
// CHECK: %[[Y:.*]] = omnibal.gelu %arg0 : (tensor<2x8xf32>)
// CHECK-NEXT: return %[[Y]]
func.func @erf(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %root = omnibal.constant dense<1.41421354> : tensor<f32>
  %one = omnibal.constant dense<1.0> : tensor<f32>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %0 = omnibal.div %x, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = omnibal.erf %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = omnibal.add %1, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = omnibal.mul %half, %2 : (tensor<f32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = omnibal.mul %x, %3 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @tanh
// CHECK: %[[Y:.*]] = omnibal.gelu %arg0 {tanh}
// CHECK-NEXT: return %[[Y]]
func.func @tanh(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %three = omnibal.constant dense<3.0> : tensor<f32>
  %a = omnibal.constant dense<0.044715> : tensor<f32>
  %b = omnibal.constant dense<0.797884583> : tensor<f32>
  %one = omnibal.constant dense<1.0> : tensor<f32>
  %half = omnibal.constant dense<0.5> : tensor<f32>
  %0 = omnibal.pow %x, %three : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = omnibal.mul %0, %a : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %2 = omnibal.add %x, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = omnibal.mul %2, %b : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %4 = omnibal.tanh %3 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = omnibal.add %4, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %6 = omnibal.mul %5, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %7 = omnibal.mul %6, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @sigmoids
// CHECK-DAG: %[[S:.*]] = omnibal.silu %arg0
// CHECK-DAG: %[[Q:.*]] = omnibal.quick_gelu %arg0
// CHECK: return %[[S]], %[[Q]]
func.func @sigmoids(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %c = omnibal.constant dense<1.702> : tensor<f32>
  %0 = omnibal.sigmoid %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = omnibal.mul %x, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = omnibal.mul %x, %c : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = omnibal.sigmoid %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = omnibal.mul %3, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1, %4 : tensor<2x8xf32>, tensor<2x8xf32>
}

// Another factor is no quick_gelu, and another operand no silu.
// CHECK-LABEL: func.func @others
// CHECK-NOT: gelu
// CHECK-NOT: silu
func.func @others(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %c = omnibal.constant dense<1.5> : tensor<f32>
  %0 = omnibal.sigmoid %y : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = omnibal.mul %x, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = omnibal.mul %x, %c : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = omnibal.sigmoid %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = omnibal.mul %3, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1, %4 : tensor<2x8xf32>, tensor<2x8xf32>
}
