//===- Schema.h - The generated ONNX messages --------------------------------------------===//
#ifndef IMPORTERS_ONNX_SCHEMA_H
#define IMPORTERS_ONNX_SCHEMA_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "importers/onnx/onnx.pb.h"
#pragma GCC diagnostic pop

#endif // IMPORTERS_ONNX_SCHEMA_H
