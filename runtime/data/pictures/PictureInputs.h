//===- PictureInputs.h - What follows from the sizes of a micro-batch's pictures ----------===//
//
// Models of dynamic resolution compute positions, windows and segments of patches from the
// pictures' sizes. This code does so on the host, so that the program's sizes stay affine in V and
// N. Names and meanings are those of docs/program.md, and values are those of Transformers, bit for
// bit.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_PICTURES_PICTUREINPUTS_H
#define RUNTIME_DATA_PICTURES_PICTUREINPUTS_H

#include "runtime/program/PictureGrid.h"
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

struct PictureInputs {
  std::map<std::string, std::vector<int32_t>> integers; ///< by name, without position_ids
  std::vector<float> interpWeights;                     ///< image_interp_weights
};

/// `pictures`: of all samples of the micro-batch, in order.
PictureInputs pictureInputs(std::span<const PictureUnits> pictures, const PictureGrid &grid);

/// Temporal, row and column position of each token.
using TokenPositions = std::array<std::vector<int32_t>, 3>;
/// Appends the positions of one sample, which begin at 0. Its image tokens must be those of its
/// pictures (checkImageTokens); without image tokens all three positions count the tokens.
void appendPositions(std::span<const int32_t> inputIds, int64_t imageTokenId,
                     std::span<const PictureUnits> pictures, TokenPositions &out);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_PICTUREINPUTS_H
