// RUN: omnibal-opt %s --split-input-file --test-emit-gpu-kernels --verify-diagnostics

#n = affine_map<(d0, d1) -> (d1, 8)>
// expected-error @+1 {{argument 0 needs omnibal.role and omnibal.index}}
func.func @roles(%x: tensor<?x8xf32, #n>) -> tensor<?x8xf32, #n> {
  return %x : tensor<?x8xf32, #n>
}
