// RUN: omnibal-opt %s --omnibal-raise-rope=tokens=3 | FileCheck -enable-var-scope %s

// Tables of cos and sin are evaluated for positions 0, 1, 2: frequencies 1 and 0.
#ids = affine_map<(d0, d1) -> (1, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#col = affine_map<(d0, d1) -> (d1, 1)>
#angle = affine_map<(d0, d1) -> (d1, 2)>
#wide = affine_map<(d0, d1) -> (d1, 4)>
#cos = affine_map<(d0, d1) -> (1, 1, d1, 4)>
#x = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#half = affine_map<(d0, d1) -> (1, 2, d1, 2)>
#pairs = affine_map<(d0, d1) -> (1, 2, d1, 2, 2)>
#part = affine_map<(d0, d1) -> (1, 2, d1, 2, 1)>

// CHECK-LABEL: func.func @halves
// CHECK-DAG: %[[COS:.*]] = omnibal.constant dense<{{\[\[}}1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00], [0.540302277, 1.000000e+00, 0.540302277, 1.000000e+00], [-0.416146845, 1.000000e+00, -0.416146845, 1.000000e+00]]> : tensor<3x4xf32>
// CHECK-DAG: %[[POSITIONS:.*]] = omnibal.batch_value "positions" : tensor<?xi32
// CHECK: %[[Y:.*]] = omnibal.rope %{{[a-z0-9]+}}, %[[POSITIONS]], %[[COS]], %{{[a-z0-9]+}} :
// CHECK: return %[[Y]]
func.func @halves(%ids: tensor<1x?xi64, #ids> {omnibal.role = "ids"}, %x: tensor<1x2x?x4xf32, #x> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #x> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %float = omnibal.cast %iota : (tensor<?xi64, #row>) -> tensor<?xf32, #row>
  %column = omnibal.reshape %float : (tensor<?xf32, #row>) -> tensor<?x1xf32, #col>
  %frequencies = omnibal.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %angles = omnibal.mul %column, %frequencies : (tensor<?x1xf32, #col>, tensor<2xf32>) -> tensor<?x2xf32, #angle>
  %double = omnibal.concat %angles, %angles {axis = 1 : i64} : (tensor<?x2xf32, #angle>, tensor<?x2xf32, #angle>) -> tensor<?x4xf32, #wide>
  %c = omnibal.cos %double : (tensor<?x4xf32, #wide>) -> tensor<?x4xf32, #wide>
  %s = omnibal.sin %double : (tensor<?x4xf32, #wide>) -> tensor<?x4xf32, #wide>
  %c4 = omnibal.reshape %c : (tensor<?x4xf32, #wide>) -> tensor<1x1x?x4xf32, #cos>
  %s4 = omnibal.reshape %s : (tensor<?x4xf32, #wide>) -> tensor<1x1x?x4xf32, #cos>
  %low = omnibal.slice %x {begin = array<i64: 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x4xf32, #x>) -> tensor<1x2x?x2xf32, #half>
  %high = omnibal.slice %x {begin = array<i64: 0, 0, 0, 2>, step = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x4xf32, #x>) -> tensor<1x2x?x2xf32, #half>
  %minus = omnibal.neg %high : (tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x2xf32, #half>
  %turned = omnibal.concat %minus, %low {axis = 3 : i64} : (tensor<1x2x?x2xf32, #half>, tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x4xf32, #x>
  %a = omnibal.mul %x, %c4 : (tensor<1x2x?x4xf32, #x>, tensor<1x1x?x4xf32, #cos>) -> tensor<1x2x?x4xf32, #x>
  %b = omnibal.mul %turned, %s4 : (tensor<1x2x?x4xf32, #x>, tensor<1x1x?x4xf32, #cos>) -> tensor<1x2x?x4xf32, #x>
  %y = omnibal.add %a, %b : (tensor<1x2x?x4xf32, #x>, tensor<1x2x?x4xf32, #x>) -> tensor<1x2x?x4xf32, #x>
  return %y : tensor<1x2x?x4xf32, #x>
}

// Neighboring pairs: each angle twice, side by side.
// CHECK-LABEL: func.func @pairs
// CHECK-DAG: %[[COS:.*]] = omnibal.constant dense<{{\[\[}}1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00], [0.540302277, 0.540302277, 1.000000e+00, 1.000000e+00], [-0.416146845, -0.416146845, 1.000000e+00, 1.000000e+00]]> : tensor<3x4xf32>
// CHECK: %[[Y:.*]] = omnibal.rope %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %[[COS]], %{{[a-z0-9]+}} {interleaved}
// CHECK: return %[[Y]]
func.func @pairs(%ids: tensor<1x?xi64, #ids> {omnibal.role = "ids"}, %x: tensor<1x2x?x4xf32, #x> {omnibal.role = "image"}) -> tensor<1x2x?x4xf32, #x> {
  %zero = omnibal.constant dense<0> : tensor<i64>
  %one = omnibal.constant dense<1> : tensor<i64>
  %n1 = omnibal.shape %ids {start = 1 : i64, end = 2 : i64} : (tensor<1x?xi64, #ids>) -> tensor<1xi64>
  %n = omnibal.reshape %n1 : (tensor<1xi64>) -> tensor<i64>
  %iota = omnibal.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #row>
  %float = omnibal.cast %iota : (tensor<?xi64, #row>) -> tensor<?xf32, #row>
  %column = omnibal.reshape %float : (tensor<?xf32, #row>) -> tensor<?x1xf32, #col>
  %frequencies = omnibal.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %angles = omnibal.mul %column, %frequencies : (tensor<?x1xf32, #col>, tensor<2xf32>) -> tensor<?x2xf32, #angle>
  %c = omnibal.cos %angles : (tensor<?x2xf32, #angle>) -> tensor<?x2xf32, #angle>
  %s = omnibal.sin %angles : (tensor<?x2xf32, #angle>) -> tensor<?x2xf32, #angle>
  %p = omnibal.reshape %x : (tensor<1x2x?x4xf32, #x>) -> tensor<1x2x?x2x2xf32, #pairs>
  %e1 = omnibal.slice %p {begin = array<i64: 0, 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x2x2xf32, #pairs>) -> tensor<1x2x?x2x1xf32, #part>
  %o1 = omnibal.slice %p {begin = array<i64: 0, 0, 0, 0, 1>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<1x2x?x2x2xf32, #pairs>) -> tensor<1x2x?x2x1xf32, #part>
  %e = omnibal.reshape %e1 : (tensor<1x2x?x2x1xf32, #part>) -> tensor<1x2x?x2xf32, #half>
  %o = omnibal.reshape %o1 : (tensor<1x2x?x2x1xf32, #part>) -> tensor<1x2x?x2xf32, #half>
  %ec = omnibal.mul %e, %c : (tensor<1x2x?x2xf32, #half>, tensor<?x2xf32, #angle>) -> tensor<1x2x?x2xf32, #half>
  %os = omnibal.mul %o, %s : (tensor<1x2x?x2xf32, #half>, tensor<?x2xf32, #angle>) -> tensor<1x2x?x2xf32, #half>
  %es = omnibal.mul %e, %s : (tensor<1x2x?x2xf32, #half>, tensor<?x2xf32, #angle>) -> tensor<1x2x?x2xf32, #half>
  %oc = omnibal.mul %o, %c : (tensor<1x2x?x2xf32, #half>, tensor<?x2xf32, #angle>) -> tensor<1x2x?x2xf32, #half>
  %re = omnibal.sub %ec, %os : (tensor<1x2x?x2xf32, #half>, tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x2xf32, #half>
  %im = omnibal.add %es, %oc : (tensor<1x2x?x2xf32, #half>, tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x2xf32, #half>
  %re1 = omnibal.reshape %re : (tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x2x1xf32, #part>
  %im1 = omnibal.reshape %im : (tensor<1x2x?x2xf32, #half>) -> tensor<1x2x?x2x1xf32, #part>
  %both = omnibal.concat %re1, %im1 {axis = 4 : i64} : (tensor<1x2x?x2x1xf32, #part>, tensor<1x2x?x2x1xf32, #part>) -> tensor<1x2x?x2x2xf32, #pairs>
  %y = omnibal.reshape %both : (tensor<1x2x?x2x2xf32, #pairs>) -> tensor<1x2x?x4xf32, #x>
  return %y : tensor<1x2x?x4xf32, #x>
}
