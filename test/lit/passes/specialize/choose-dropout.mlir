// RUN: sed '/%[p] = /,/%[r]ead = /d' %s > %t.mlir
// RUN: omnibal-opt %t.mlir --omnibal-choose-dropout | FileCheck %s --check-prefix=MODEL
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=hidden" | FileCheck %s --check-prefix=MODEL
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=0.5" | FileCheck %s --check-prefix=NUMBER
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=0" | FileCheck %s --check-prefix=NONE
// RUN: not omnibal-opt %s --omnibal-choose-dropout 2>&1 | FileCheck %s --check-prefix=ATTENTION
// RUN: not omnibal-opt %s --omnibal-choose-dropout="mode=1" 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not omnibal-opt %s --omnibal-choose-dropout="mode=some" 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: omnibal-opt %s --omnibal-choose-dropout="mode=hidden" --omnibal-specialize | FileCheck %s --check-prefix=SPECIALIZED

// MODEL-COUNT-2: omnibal.dropout %{{.*}} {ratio = 1.250000e-01 : f64}
// MODEL: omnibal.dropout %{{.*}} {ratio = 2.500000e-01 : f64}
// MODEL-NOT: omnibal.dropout
// NUMBER-COUNT-3: omnibal.dropout %{{.*}} {ratio = 5.000000e-01 : f64}
// NUMBER-NOT: omnibal.dropout
// NONE-NOT: omnibal.dropout
// ATTENTION: error: {{.*}}node 'probabilities' (omnibal.dropout) drops 10.00% of an attention's probabilities, which is not supported; leave it out with --dropout hidden
// WRONG: error: omnibal-choose-dropout: mode '{{1|some}}' is neither model nor hidden nor a number in [0, 1)

// Equal ones of the same value stay apart, as they draw different numbers; one that nothing reads goes.
// SPECIALIZED: %[[A:.*]] = omnibal.dropout %[[X:.*]] {ratio = 1.250000e-01 : f64}
// SPECIALIZED: %[[B:.*]] = omnibal.dropout %[[X]] {ratio = 1.250000e-01 : f64}
// SPECIALIZED-NOT: omnibal.dropout
// SPECIALIZED: omnibal.add %[[A]], %[[B]]
module {
  func.func @main(%x: tensor<?x4x8xf32> {omnibal.input = "x"}) -> tensor<?x4x8xf32> {
    %a = omnibal.dropout %x {ratio = 0.125 : f64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %b = omnibal.dropout %x {ratio = 0.125 : f64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %unread = omnibal.dropout %x {ratio = 0.25 : f64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %p = omnibal.softmax %x {axis = 2 : i64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %c = omnibal.cast %p : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %none = omnibal.is_nan %c : (tensor<?x4x8xf32>) -> tensor<?x4x8xi1>
    %zero = omnibal.constant dense<0.0> : tensor<f32>
    %s = omnibal.select %none, %zero, %c : (tensor<?x4x8xi1>, tensor<f32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %d = omnibal.dropout %s {ratio = 0.1 : f64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32> loc("probabilities")
    %read = omnibal.add %d, %x : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    %sum = omnibal.add %a, %b : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    return %sum : tensor<?x4x8xf32>
  }
}
