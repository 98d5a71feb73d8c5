// RUN: omnibal-opt %s --split-input-file --omnibal-materialize-layers --verify-diagnostics

#n = affine_map<(d0, d1) -> (1, d1, 8)>
!h = tensor<1x?x8xf32, #n>
// expected-error @below {{omnibal-materialize-layers needs exactly one loss, @main has 0; run omnibal-attach-loss first}}
func.func @main() -> !h {
  %x = omnibal.layer "head" head inputs() parameters() : () -> !h {
    %0 = omnibal.batch_value "embeddings" : !h
    omnibal.yield %0 : !h
  }
  return %x : !h
}

// -----

// Where only integers lie between a parameter and the loss, nothing can train.
#n = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d1, 8)>
omnibal.parameter @p : tensor<8xf32>
// expected-error @below {{nothing trains: no parameter that is not frozen reaches the loss}}
func.func @main() -> tensor<?xf32, #n> {
  %p = omnibal.get_parameter @p : tensor<8xf32>
  %loss = omnibal.layer "head" head inputs() parameters(%p) attributes {omnibal.outputs = ["loss"]} : (tensor<8xf32>) -> tensor<?xf32, #n> {
  ^bb0(%0: tensor<8xf32>):
    %1 = omnibal.batch_value "logits" : tensor<?x8xf32, #w>
    %2 = omnibal.floor %0 : (tensor<8xf32>) -> tensor<8xf32>
    %3 = omnibal.add %1, %2 : (tensor<?x8xf32, #w>, tensor<8xf32>) -> tensor<?x8xf32, #w>
    %4 = omnibal.batch_value "targets" : tensor<?xi32, #n>
    %5 = omnibal.cross_entropy %3, %4 : (tensor<?x8xf32, #w>, tensor<?xi32, #n>) -> tensor<?xf32, #n>
    omnibal.yield %5 : tensor<?xf32, #n>
  }
  return %loss : tensor<?xf32, #n>
}

// -----

// An op without a gradient is named where a gradient reaches it.
#n = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d1, 8)>
omnibal.parameter @p : tensor<8xf32>
func.func @main() -> tensor<?xf32, #n> {
  %p = omnibal.get_parameter @p : tensor<8xf32>
  %loss = omnibal.layer "head" head inputs() parameters(%p) attributes {omnibal.outputs = ["loss"]} : (tensor<8xf32>) -> tensor<?xf32, #n> {
  ^bb0(%0: tensor<8xf32>):
    %1 = omnibal.batch_value "logits" : tensor<?x8xf32, #w>
    // expected-error @below {{'omnibal.mod' op has no gradient, but what trains lies before it}}
    %2 = omnibal.mod %1, %0 {fmod} : (tensor<?x8xf32, #w>, tensor<8xf32>) -> tensor<?x8xf32, #w>
    %4 = omnibal.batch_value "targets" : tensor<?xi32, #n>
    %5 = omnibal.cross_entropy %2, %4 : (tensor<?x8xf32, #w>, tensor<?xi32, #n>) -> tensor<?xf32, #n>
    omnibal.yield %5 : tensor<?xf32, #n>
  }
  return %loss : tensor<?xf32, #n>
}

// -----

// What no gradient reaches stays as it is, and that is said.
#n = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d1, 8)>
omnibal.parameter @p : tensor<8xf32>
// expected-remark @below {{does not influence the loss differentiably; it stays as it is}}
omnibal.parameter @unused : tensor<8xf32>
func.func @main() -> tensor<?xf32, #n> {
  %p = omnibal.get_parameter @p : tensor<8xf32>
  %loss = omnibal.layer "head" head inputs() parameters(%p) attributes {omnibal.outputs = ["loss"]} : (tensor<8xf32>) -> tensor<?xf32, #n> {
  ^bb0(%0: tensor<8xf32>):
    %1 = omnibal.batch_value "logits" : tensor<?x8xf32, #w>
    %2 = omnibal.add %1, %0 : (tensor<?x8xf32, #w>, tensor<8xf32>) -> tensor<?x8xf32, #w>
    %4 = omnibal.batch_value "targets" : tensor<?xi32, #n>
    %5 = omnibal.cross_entropy %2, %4 : (tensor<?x8xf32, #w>, tensor<?xi32, #n>) -> tensor<?xf32, #n>
    omnibal.yield %5 : tensor<?xf32, #n>
  }
  return %loss : tensor<?xf32, #n>
}
