//===- PictureFacts.h - How a model of dynamic resolution cuts pictures ------------------===//
#ifndef IMPORTERS_ONNX_PICTUREFACTS_H
#define IMPORTERS_ONNX_PICTUREFACTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace omnibal::onnx {

/// Where @main has inputs that follow from pictures' sizes, writes the module's attribute
/// `omnibal.pictures`: sides of patch (pixels), merge (patches), temporal, window (pixels, 0: none)
/// and grid_side (0: none), with interpolation and align_corners where the table of that side is
/// not resampled bilinearly with corners on corners. They are read from omnibal.json (object
/// `pictures`) or else config.json (object `vision_config`) in the model's folder; a graph does not
/// say them. Fails where neither does, or where they disagree with the shapes of the graph's
/// inputs.
llvm::LogicalResult attachPictureFacts(mlir::ModuleOp module, llvm::StringRef modelPath);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_PICTUREFACTS_H
