//===- GridFile.h - What preprocessor_config.json says about patches -----------------------===//
#ifndef RUNTIME_DATA_PICTURES_GRIDFILE_H
#define RUNTIME_DATA_PICTURES_GRIDFILE_H

#include "runtime/program/PictureGrid.h"
#include "runtime/support/Status.h"
#include <string>

namespace omnibal::rt {

/// Reads patch_size, merge_size and temporal_patch_size; the result is nothing if there is no
/// merge_size, as for models whose pictures have one size. Windows and tables of positions belong
/// to the model and are not in the file.
Result<std::optional<PictureGrid>> readPictureGrid(const std::string &path);
Result<std::optional<PictureGrid>> parsePictureGrid(const std::string &json,
                                                    const std::string &label);

/// Checks that the file at `path` and the program's grid mean the same units.
Status checkSameUnits(const std::string &path, const PictureGrid &program);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_PICTURES_GRIDFILE_H
