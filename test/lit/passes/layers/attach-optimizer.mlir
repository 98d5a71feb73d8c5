// RUN: omnibal-opt %s --omnibal-attach-optimizer=optimizer=lion | FileCheck %s --check-prefix=LION
// RUN: omnibal-opt %s --omnibal-attach-optimizer=optimizer=sgd --omnibal-attach-optimizer | FileCheck %s --check-prefix=ADAMW
// RUN: not omnibal-opt %s --omnibal-attach-optimizer=optimizer=adam 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-optimizer=optimizer=muon | FileCheck %s --check-prefix=MUON
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="match=vision|projector|text.[01eh]" --omnibal-attach-optimizer=optimizer=muon 2>&1 | FileCheck %s --check-prefix=FROZEN
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-optimizer=optimizer=muon --omnibal-attach-optimizer=optimizer=lion | FileCheck %s --check-prefix=AGAIN
// RUN: omnibal-opt %s --omnibal-attach-optimizer="optimizer=adamw8bit ema=true" | FileCheck %s --check-prefix=CODED
// RUN: omnibal-opt %s --omnibal-attach-optimizer="optimizer=adamw8bit ema=true" --omnibal-attach-optimizer=optimizer=lion | FileCheck %s --check-prefix=LION
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-attach-optimizer=optimizer=adafactor | FileCheck %s --check-prefix=ADAFACTOR
// ADAFACTOR: omnibal.optimizer = #plan.optimizer<adafactor>
// ADAFACTOR-NOT: omnibal.orthogonalized
// MUON: omnibal.optimizer = #plan.optimizer<muon>
// MUON: @vision.0.norm1 : tensor<8xf32>{{$}}
// MUON: @vision.0.qkv : tensor<24x8xf32> {omnibal.orthogonalized}
// MUON: @text.embedding : tensor<11x8xf32>{{$}}
// MUON: @text.1.down : tensor<8x12xf32> {omnibal.orthogonalized}
// MUON: @text.head : tensor<11x8xf32>{{$}}
// FROZEN: error: omnibal-attach-optimizer: muon finds no weight of a linear layer that trains
// AGAIN-NOT: omnibal.orthogonalized
// LION: module attributes {omnibal.optimizer = #plan.optimizer<lion>}
// ADAMW-NOT: omnibal
// CODED: module attributes {omnibal.coded_moments, omnibal.ema}
// UNKNOWN: error: omnibal-attach-optimizer: unknown optimizer 'adam'; known are adamw, lion, sgd, muon, adafactor, adamw8bit
module {
}
