// RUN: omnibal-opt %s --omnibal-specialize -split-input-file -verify-diagnostics

// expected-error @+1 {{graph input 'pixels' ('tensor<?x3x?x?xf32>'): dimension 2 of an image input is dynamic}}
func.func @main(%x: tensor<?x3x?x?xf32> {omnibal.input = "pixels"}) -> tensor<?x3x?x?xf32> {
  return %x : tensor<?x3x?x?xf32>
}

// -----

// expected-error @+1 {{graph input 'h' ('tensor<?x8xf32>'): neither token ids}}
func.func @main(%x: tensor<?x8xf32> {omnibal.input = "h"}) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

// The last token only: logits of all tokens are needed.
func.func @main(%x: tensor<?x?xi64> {omnibal.input = "ids"}) -> tensor<?x?xi64> {
  %start = omnibal.constant dense<-1> : tensor<1xi64>
  %end = omnibal.constant dense<9223372036854775807> : tensor<1xi64>
  %axis = omnibal.constant dense<1> : tensor<1xi64>
  // expected-error @+1 {{counts from the end}}
  %y = omnibal.slice %x, %start, %end, %axis {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
  return %y : tensor<?x?xi64>
}

// -----

// A length that the exporter fixed is reported.
// expected-warning @+1 {{graph input 'ids': dimension 1 is fixed at 32 by the exporter}}
func.func @main(%x: tensor<?x32xi64> {omnibal.input = "ids"}) -> tensor<?x32xi64> {
  return %x : tensor<?x32xi64>
}
