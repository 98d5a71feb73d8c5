//===- CheckpointMatch.h - Initializers found in a checkpoint ----------------------------===//
#ifndef IMPORTERS_ONNX_CHECKPOINTMATCH_H
#define IMPORTERS_ONNX_CHECKPOINTMATCH_H

#include "importers/onnx/Parameters.h"

namespace omnibal::onnx {

/// Finds each initializer in the checkpoint, by name and by content (as it is or transposed), and
/// sets isParameter, parameter and transposed of those found. Optimizing exporters merge parameters
/// with equal bytes: one initializer that stands for several of the checkpoint's tensors is an
/// error, since training it would tie them.
mlir::LogicalResult matchToCheckpoint(const std::string &weights,
                                      const std::vector<std::string> &linkFolders,
                                      const std::vector<Initializer *> &initializers,
                                      ExternalFiles &files, mlir::Location where);

} // namespace omnibal::onnx
#endif // IMPORTERS_ONNX_CHECKPOINTMATCH_H
