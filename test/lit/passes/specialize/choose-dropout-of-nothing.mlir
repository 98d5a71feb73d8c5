// RUN: not omnibal-opt %s --omnibal-choose-dropout="mode=0.5" 2>&1 | FileCheck %s
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=0" | FileCheck %s --check-prefix=SAME
// RUN: omnibal-opt %s --omnibal-choose-dropout | FileCheck %s --check-prefix=SAME
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=hidden" | FileCheck %s --check-prefix=SAME

// A ratio for nothing is a mistake that nobody would notice.
// CHECK: error: omnibal-choose-dropout: the graph drops no hidden states, so nothing has the ratio 0.5; set one above 0
// SAME: return %{{.*}} : tensor<?x4x8xf32
module {
  func.func @main(%x: tensor<?x4x8xf32> {omnibal.input = "x"}) -> tensor<?x4x8xf32> {
    return %x : tensor<?x4x8xf32>
  }
}
