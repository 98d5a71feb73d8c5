//===- ForwardPictures.h - Pictures of their own sizes among --forward's inputs -------------===//
//
// A model of dynamic resolution reads values that follow from its pictures' sizes. The file of
// inputs tells the sizes: by image_grid_thw, as Transformers' processors give it, or by the graph's
// own image_position_ids and image_segment_ids. Whatever else of these values it holds must be what
// the sizes give; it is checked, not used.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_TRAINING_INFERENCE_FORWARDPICTURES_H
#define RUNTIME_TRAINING_INFERENCE_FORWARDPICTURES_H

#include "runtime/data/pictures/PictureInputs.h"
#include "runtime/support/Safetensors.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Names that readPictures() and checkPictureInputs() understand.
const std::vector<std::string> &pictureInputNames();

/// Sizes of the file's pictures, in order.
Result<std::vector<PictureUnits>> readPictures(const SafetensorsFile &file,
                                               const PictureGrid &grid);

/// Compares the tensors of the file that follow from the pictures' sizes alone.
Status checkPictureInputs(const SafetensorsFile &file, std::span<const PictureUnits> pictures,
                          const PictureGrid &grid);

/// An integer tensor of the file as a list; `elements` -1: of any length.
Result<std::vector<int32_t>> readIntegers(const SafetensorsFile &file, const std::string &name,
                                          int64_t elements);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_INFERENCE_FORWARDPICTURES_H
