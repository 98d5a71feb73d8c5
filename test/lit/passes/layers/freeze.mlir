// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=vision" | FileCheck %s --check-prefix=VISION
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=projector,language" | FileCheck %s --check-prefix=REST
// RUN: omnibal-opt %inputs/form-l.mlir --omnibal-freeze="match=norm[12]$" | FileCheck %s --check-prefix=MATCH
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=audio" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=head" 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="match=resampler" 2>&1 | FileCheck %s --check-prefix=NOMATCH
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="match=(" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not omnibal-opt %inputs/form-l.mlir --omnibal-freeze="parts=vision,projector,language" 2>&1 | FileCheck %s --check-prefix=NOTHING

// The part's parameters and no others.
// VISION: omnibal.parameter @vision.patch : tensor<8x6xf32> {frozen}
// VISION: omnibal.parameter @vision.1.fc2 : tensor<8x16xf32> {frozen}
// VISION-NOT: frozen

// Embedding and head belong to the language model.
// REST-NOT: frozen
// REST: omnibal.parameter @projector.fc : tensor<8x16xf32> {frozen}
// REST: omnibal.parameter @text.embedding : tensor<11x8xf32> {frozen}
// REST: omnibal.parameter @text.head : tensor<11x8xf32> {frozen}

// MATCH: @vision.0.norm1 : tensor<8xf32> {frozen}
// MATCH: @vision.0.norm1_bias : tensor<8xf32>{{$}}
// MATCH: @text.1.norm2 : tensor<8xf32> {frozen}
// MATCH: @text.norm : tensor<8xf32>{{$}}

// UNKNOWN: error: omnibal-freeze: unknown component 'audio'; known are vision, projector and language
// HEAD: error: omnibal-freeze: unknown component 'head'
// NOMATCH: error: omnibal-freeze: no parameter's name matches 'resampler'
// SYNTAX: error: omnibal-freeze: '(' is not a regular expression
// NOTHING: error: nothing is left to train: every parameter is frozen
