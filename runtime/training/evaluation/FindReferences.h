//===- FindReferences.h - The reference's log-probabilities of pairs of answers ---------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_FINDREFERENCES_H
#define RUNTIME_TRAINING_EVALUATION_FINDREFERENCES_H

#include "runtime/training/session/Session.h"

namespace omnibal::rt {

/// Where the program learns from pairs of answers: gives the session the references of its data and
/// of what it is evaluated with, from the files that the options name. Training makes a file that
/// is not there, with the weights as they are before its first step, so this comes before a
/// checkpoint is read. All ranks call it; rank 0 alone needs the files.
Status findReferences(Session &session, const DataSource &data, const AdapterStart &adapters);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_FINDREFERENCES_H
